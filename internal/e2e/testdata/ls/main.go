// Command ls is the pod of the exec benchmark. It is a server with a readiness endpoint, and also implements ls.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "ls" {
		entries, err := os.ReadDir(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return
	}
	ready := func(http.ResponseWriter, *http.Request) {}
	if err := http.ListenAndServe(os.Getenv("LEAKRIG_LISTEN"), http.HandlerFunc(ready)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
