module github.com/leakrig/leakrig/subjects/serve

go 1.26.0
