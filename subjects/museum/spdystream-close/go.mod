module github.com/leakrig/leakrig/subjects/museum/spdystream-close

go 1.26.0

require (
	github.com/leakrig/leakrig/subjects/serve v0.0.0
	github.com/moby/spdystream v0.4.0
)

replace github.com/leakrig/leakrig/subjects/serve => ../../serve
