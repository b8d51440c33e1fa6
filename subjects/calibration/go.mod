module github.com/leakrig/leakrig/subjects/calibration

go 1.26.0

require github.com/leakrig/leakrig/subjects/serve v0.0.0

replace github.com/leakrig/leakrig/subjects/serve => ../serve
