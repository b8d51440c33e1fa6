module github.com/leakrig/leakrig/subjects/museum/fasthttp-fslock

go 1.26.0

require (
	github.com/leakrig/leakrig/subjects/serve v0.0.0
	github.com/valyala/fasthttp v1.72.0
)

require (
	github.com/andybalholm/brotli v1.2.1 // indirect
	github.com/klauspost/compress v1.18.6 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
)

replace github.com/leakrig/leakrig/subjects/serve => ../../serve
