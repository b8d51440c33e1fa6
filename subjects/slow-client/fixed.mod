module github.com/leakrig/leakrig/subjects/slow-client

go 1.26.0

require (
	github.com/leakrig/leakrig/subjects/serve v0.0.0
	nhooyr.io/websocket v1.8.10
)

replace github.com/leakrig/leakrig/subjects/serve => ../serve
