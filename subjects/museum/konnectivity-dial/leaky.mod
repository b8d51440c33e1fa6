module github.com/leakrig/leakrig/subjects/museum/konnectivity-dial

go 1.26.0

require (
	github.com/leakrig/leakrig/subjects/serve v0.0.0
	google.golang.org/grpc v1.27.1
	sigs.k8s.io/apiserver-network-proxy/konnectivity-client v0.0.32
)

require (
	github.com/go-logr/logr v0.1.0 // indirect
	github.com/golang/protobuf v1.4.3 // indirect
	golang.org/x/net v0.0.0-20200822124328-c89045814202 // indirect
	golang.org/x/sys v0.0.0-20200323222414-85ca7c5b95cd // indirect
	golang.org/x/text v0.3.0 // indirect
	google.golang.org/genproto v0.0.0-20200526211855-cb27e3aa2013 // indirect
	google.golang.org/protobuf v1.26.0-rc.1 // indirect
	k8s.io/klog/v2 v2.0.0 // indirect
)

replace github.com/leakrig/leakrig/subjects/serve => ../../serve
