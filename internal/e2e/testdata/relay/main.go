// Command relay answers POST /work. With -backend it first asks the relay at that address to do the same. It is the
// subject and both dependencies of TestKindDependencies.
package main

import (
	"flag"
	"log"
	"net/http"
	_ "net/http/pprof" // leakrig reads the subject through it
	"os"
	"time"
)

func main() {
	backend := flag.String("backend", "", "address of the next relay")
	flag.Parse()
	client := &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	http.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /work", func(w http.ResponseWriter, _ *http.Request) {
		if *backend == "" {
			return
		}
		resp, err := client.Post("http://"+*backend+"/work", "", nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
	})
	log.Printf("listening")
	log.Fatal(http.ListenAndServe(os.Getenv("LEAKRIG_LISTEN"), nil))
}
