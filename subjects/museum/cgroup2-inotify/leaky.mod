module github.com/leakrig/leakrig/subjects/museum/cgroup2-inotify

go 1.26.0

require (
	github.com/containerd/cgroups v1.0.2
	github.com/leakrig/leakrig/subjects/serve v0.0.0
)

require (
	github.com/cilium/ebpf v0.4.0 // indirect
	github.com/coreos/go-systemd/v22 v22.3.2 // indirect
	github.com/godbus/dbus/v5 v5.0.4 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/opencontainers/runtime-spec v1.0.2 // indirect
	github.com/sirupsen/logrus v1.8.1 // indirect
	golang.org/x/sys v0.0.0-20210124154548-22da62e12c0c // indirect
)

replace github.com/leakrig/leakrig/subjects/serve => ../../serve
