#!/usr/bin/env bash
# Gives a Debian machine working container engines, where none answers: installs docker, starts dockerd
# in the background, and installs podman. Installs what building a node image needs, and keeps containers from
# sending anything out of the machine. None of this belongs to the product.
set -euo pipefail
cd "$(dirname "$0")"

if [ "$(id -u)" -ne 0 ]; then
	echo "engine: setting one up needs root" >&2
	exit 1
fi
missing=()
for pair in docker:docker.io debootstrap:debootstrap iptables:iptables ip:iproute2; do
	command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ -e /usr/include/seccomp.h ] || missing+=(libseccomp-dev) # for runc, where it is pinned
docker info >/dev/null 2>&1 || command -v dockerd >/dev/null || missing+=(docker.io)
command -v podman >/dev/null || missing+=(podman netavark aardvark-dns)
if [ ${#missing[@]} -gt 0 ]; then
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# Where this process lacks a capability, --privileged containers fail with "unable to apply caps"; a runtime that
# takes out of the spec what cannot be had goes on.
wrapper=/usr/local/bin/runc-bounded
build_wrapper() {
	(cd runc-bounded && GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$wrapper.new" .)
	mv "$wrapper.new" "$wrapper" # an engine may be running the old one
}

start_engine() {
	build_wrapper
	mkdir -p /etc/docker
	cat >/etc/docker/daemon.json <<-JSON
		{"runtimes": {"bounded": {"path": "$wrapper"}}, "default-runtime": "bounded", "log-driver": "json-file", "log-opts": {"max-size": "10m"}}
	JSON
	# A pid file of a daemon that is gone would keep the next one from starting.
	rm -f /var/run/docker.pid /run/docker/containerd/containerd.pid
	setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null &
	for _ in $(seq 200); do
		docker info >/dev/null 2>&1 && return
		sleep 0.3
	done
	echo "engine: dockerd does not answer; its last words:" >&2
	tail -20 /var/log/dockerd.log >&2
	exit 1
}
docker info >/dev/null 2>&1 || start_engine

# kind mounts /lib/modules into nodes. docker makes a folder that is absent, podman fails.
mkdir -p /lib/modules

# podman needs no daemon; without systemd, the kernel's files are its way to cgroups.
if [ ! -e /etc/containers/containers.conf ]; then
	build_wrapper
	mkdir -p /etc/containers
	cat >/etc/containers/containers.conf <<-TOML
		[containers]
		pids_limit = 0 # of 2048, 400 execs at once take more
		[network]
		network_backend = "netavark"
		[engine]
		cgroup_manager = "cgroupfs"
		events_logger = "file"
		runtime = "bounded"
		[engine.runtimes]
		bounded = ["$wrapper"]
	TOML
fi
podman info >/dev/null
# docker has what it does not know dropped, and podman lets through what is from or to its nodes, not their pods.
iptables -C FORWARD -i podman+ -o podman+ -j ACCEPT 2>/dev/null || iptables -I FORWARD -i podman+ -o podman+ -j ACCEPT

# Nothing here needs the network beyond this machine: drop what containers would send through the
# default interface, in a chain that no engine writes to.
out=$(ip -o route show default | awk '{print $5; exit}')
if [ -n "$out" ]; then
	iptables -t mangle -C FORWARD -o "$out" -j DROP 2>/dev/null || iptables -t mangle -I FORWARD -o "$out" -j DROP
fi
echo "engine: $(docker info --format '{{.ServerVersion}} {{.Driver}} cgroup v{{.CgroupVersion}}') answers, podman $(podman info --format '{{.Version.Version}}') too"
