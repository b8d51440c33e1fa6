// Command served is a process that leakrig did not start: it serves pprof (plain, tls or unix) and, on another port,
// /leak, /fine, and /drip, which starts a leak by time. It writes its addresses to the files pprof.url and load.url.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/admin/debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		if os.Args[1] == "tls" && r.Header.Get("Authorization") != "Bearer hunter2-of-tls" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		http.StripPrefix("/admin", http.HandlerFunc(pprof.Index)).ServeHTTP(w, r)
	})
	loaded := http.NewServeMux()
	loaded.HandleFunc("/leak", func(http.ResponseWriter, *http.Request) { go servedLeak() })
	loaded.HandleFunc("/fine", func(http.ResponseWriter, *http.Request) {})
	loaded.HandleFunc("/drip", func(http.ResponseWriter, *http.Request) {
		go func() {
			for range time.Tick(50 * time.Millisecond) {
				go servedLeak()
			}
		}()
	})
	go serveOn(listenOn("tcp", "127.0.0.1:0"), "load.url", "http://%s", loaded)
	switch os.Args[1] {
	case "plain":
		serveOn(listenOn("tcp", "127.0.0.1:0"), "pprof.url", "http://%s/admin", mux)
	case "unix":
		serveOn(listenOn("unix", "app.sock"), "pprof.url", "unix://"+os.Getenv("WORK")+"/%s", mux)
	case "tls":
		serveOn(tls.NewListener(listenOn("tcp", "127.0.0.1:0"), authorities()), "pprof.url", "https://%s/admin/debug/pprof", mux)
	}
}

func servedLeak() { select {} }

func listenOn(network, address string) net.Listener {
	l, err := net.Listen(network, address)
	mustNot(err)
	return l
}

func serveOn(l net.Listener, file, format string, h http.Handler) {
	mustNot(os.WriteFile(file, fmt.Appendf(nil, format, l.Addr()), 0o600))
	mustNot(http.Serve(l, h))
}

func mustNot(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// authorities writes ca.pem, and client.pem with client.key that it has signed, and returns a server's
// configuration that asks for them.
func authorities() *tls.Config {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mustNot(err)
	template := func(serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
		}
	}
	ca := template(1)
	ca.IsCA = true
	issue := func(serial int64, prefix string) tls.Certificate {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		mustNot(err)
		der, err := x509.CreateCertificate(rand.Reader, template(serial), ca, &key.PublicKey, caKey)
		mustNot(err)
		keyDER, err := x509.MarshalECPrivateKey(key)
		mustNot(err)
		writePEM(prefix+".pem", "CERTIFICATE", der)
		writePEM(prefix+".key", "EC PRIVATE KEY", keyDER)
		pair, err := tls.LoadX509KeyPair(prefix+".pem", prefix+".key")
		mustNot(err)
		return pair
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	mustNot(err)
	writePEM("ca.pem", "CERTIFICATE", der)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	server := issue(2, "server")
	issue(3, "client")
	return &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func writePEM(file, kind string, der []byte) {
	mustNot(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
