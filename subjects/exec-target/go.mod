module github.com/leakrig/leakrig/subjects/exec-target

go 1.26.0

require github.com/leakrig/leakrig/subjects/serve v0.0.0

replace github.com/leakrig/leakrig/subjects/serve => ../serve
