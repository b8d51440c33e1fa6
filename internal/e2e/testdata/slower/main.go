// Command slower answers POST /work. With -by every answer takes that much longer than the one before, as if it searched
// a list that grows.
package main

import (
	"flag"
	"log"
	"net/http"
	_ "net/http/pprof" // leakrig reads the subject through it
	"os"
	"sync/atomic"
	"time"
)

func main() {
	by := flag.Duration("by", 0, "how much longer each answer takes")
	flag.Parse()
	var answers atomic.Int64
	http.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /work", func(http.ResponseWriter, *http.Request) {
		time.Sleep(time.Duration(answers.Add(1)) * *by)
	})
	log.Fatal(http.ListenAndServe(os.Getenv("LEAKRIG_LISTEN"), nil))
}
