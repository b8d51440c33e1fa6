module github.com/leakrig/leakrig/subjects/museum/smithy-lru

go 1.26.0

require (
	github.com/aws/smithy-go v1.25.1
	github.com/leakrig/leakrig/subjects/serve v0.0.0
)

replace github.com/leakrig/leakrig/subjects/serve => ../../serve
