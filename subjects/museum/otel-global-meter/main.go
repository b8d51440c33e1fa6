// Command otel-global-meter creates the same 20 instruments for every POST, as a client does that is made for every
// call. No meter provider is installed. In OpenTelemetry before v1.30.0, the global meter keeps every instrument that
// it returns, for a provider that never comes.
package main

import (
	"fmt"
	"net/http"

	"github.com/leakrig/leakrig/subjects/serve"
	"go.opentelemetry.io/otel"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /create", func(w http.ResponseWriter, _ *http.Request) {
		if err := create(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// create creates the instruments of a client.
func create() error {
	meter := otel.GetMeterProvider().Meter("client")
	for i := range 20 {
		if _, err := meter.Int64Counter(fmt.Sprintf("requests.%d", i)); err != nil {
			return err
		}
	}
	return nil
}
