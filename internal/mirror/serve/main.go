// Command serve serves the kube-apiserver and etcd of a cache as a mirror on loopback, and prints the URL of the index.
//
//	go run ./internal/mirror/serve CACHE
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/cluster/binaries"
	"github.com/leakrig/leakrig/internal/mirror"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: serve CACHE")
	}
	built, ok := binaries.Source{Mode: binaries.Build, Cache: os.Args[1]}.Find(binaries.Want{Version: cluster.DefaultVersion})
	if !ok {
		log.Fatalf("%s has no kube-apiserver %s: run a scenario with --control-plane build", os.Args[1], cluster.DefaultVersion)
	}
	archive, err := mirror.Pack(built.APIServer, built.Etcd)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s%s\n", l.Addr(), mirror.IndexPath)
	server := &http.Server{Handler: mirror.Mirror{Version: cluster.DefaultVersion, Archive: archive}, ReadHeaderTimeout: time.Minute}
	log.Fatal(server.Serve(l))
}
