module github.com/leakrig/leakrig/subjects/museum/otel-global-meter

go 1.26.0

require (
	github.com/leakrig/leakrig/subjects/serve v0.0.0
	go.opentelemetry.io/otel v1.30.0
)

require (
	github.com/go-logr/logr v1.4.2 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	go.opentelemetry.io/otel/metric v1.30.0 // indirect
	go.opentelemetry.io/otel/trace v1.30.0 // indirect
)

replace github.com/leakrig/leakrig/subjects/serve => ../../serve
