// Command hit is a program as workers run it: it makes so many requests of the subject, once it has found the cluster
// and the subject's pod in its environment.
package main

import (
	"log"
	"net/http"
	"os"
	"strconv"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stat(os.Getenv("KUBECONFIG")); err != nil || os.Getenv("NAMESPACE") == "" || os.Getenv("POD") == "" {
		log.Fatalf("not the environment of a command: %v %v", os.Environ(), err)
	}
	for range n {
		answer, err := http.Post(os.Getenv("URL")+"/work", "text/plain", nil)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			log.Fatal(answer.Status)
		}
	}
}
