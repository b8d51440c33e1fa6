module github.com/leakrig/leakrig/docs/examples/ttrpc/calls

go 1.26.0

require (
	github.com/containerd/ttrpc v1.0.2
	github.com/gogo/protobuf v1.3.2
	github.com/leakrig/leakrig/subjects/serve v0.0.0
)

require (
	github.com/golang/protobuf v1.3.2 // indirect
	github.com/konsorten/go-windows-terminal-sequences v1.0.2 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/sirupsen/logrus v1.4.2 // indirect
	golang.org/x/sys v0.0.0-20200930185726-fdedc70b468f // indirect
	google.golang.org/genproto v0.0.0-20200117163144-32f20d992d24 // indirect
	google.golang.org/grpc v1.26.0 // indirect
)

replace github.com/leakrig/leakrig/subjects/serve => ../../../../subjects/serve
