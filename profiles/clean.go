package profiles

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/rundir"
)

// Clean returns a raw file without secrets. It searches the whole text of a dump, and the labels and comments of a
// profile, which a program sets while it runs. A file without secrets is returned unchanged.
func Clean(name string, data []byte, secrets rundir.Secrets) ([]byte, error) {
	plain, zipped := data, bytes.HasPrefix(data, []byte{0x1f, 0x8b})
	if zipped {
		var err error
		if plain, err = gunzip(data, maxProfile); err != nil {
			return nil, fmt.Errorf("search for secrets: %w", err)
		}
	}
	if !secrets.In(plain) {
		return data, nil
	}
	if strings.Contains(name, ".pb") {
		return cleanProfile(data, secrets)
	}
	plain = secrets.Redact(plain)
	if !zipped {
		return plain, nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(plain); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func cleanProfile(data []byte, secrets rundir.Secrets) ([]byte, error) {
	p, err := parsePprof(data)
	if err != nil {
		return nil, err
	}
	redact := secrets.TextRedactor()
	for _, s := range p.Sample {
		cleanLabels(s, redact)
	}
	for i := range p.Comments {
		p.Comments[i] = redact(p.Comments[i])
	}
	p.DocURL = redact(p.DocURL)
	for _, m := range p.Mapping {
		m.File = redact(m.File)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func cleanLabels(s *profile.Sample, redact func(string) string) {
	for key, values := range s.Label {
		for i := range values {
			values[i] = redact(values[i])
		}
		if clean := redact(key); clean != key {
			delete(s.Label, key)
			s.Label[clean] = append(s.Label[clean], values...)
		}
	}
}
