package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// etcdFiles are the paths of the certificates of etcd and the API server. Write access to etcd is full control of the
// cluster, and every user of the machine can reach a port on loopback.
type etcdFiles struct{ ca, cert, key string }

// etcdCertDays is far longer than any control plane of a run lives.
const etcdCertDays = 365

// newEtcdFiles writes an authority, and a certificate of it for both ends, into a folder. The authority's own key is in
// no file, so that nothing can ever be signed again.
func newEtcdFiles(dir string) (etcdFiles, error) {
	files := etcdFiles{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "etcd.crt"), filepath.Join(dir, "etcd.key")}
	ca, caKey, err := certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "leakrig etcd"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return files, err
	}
	cert, key, err := certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "etcd"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, ca, caKey)
	if err != nil {
		return files, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	return files, errors.Join(err, os.MkdirAll(dir, 0o700),
		writePEM(files.ca, "CERTIFICATE", ca.Raw), writePEM(files.cert, "CERTIFICATE", cert.Raw), writePEM(files.key, "EC PRIVATE KEY", keyDER))
}

// certificate creates a key and a certificate, signed by the authority, or self-signed if that is nil.
func certificate(template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, etcdCertDays)
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// loopback returns a free address of this machine.
func loopback() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}
