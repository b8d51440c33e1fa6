package nodeimage

import (
	"bytes"
	"context"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/leakrig/leakrig/cluster/tarfile"
)

func written(t *testing.T, entries []tarfile.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tarfile.Write(context.Background(), &b, entries); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Two images that share a layer, and are listed out of a map, make the same archive every time.
func TestArchiveIsDeterministic(t *testing.T) {
	pack := func() []byte {
		shared, err := newLayer(context.Background(), []tarfile.Entry{tarfile.Text("etc/empty", 0o600, nil), tarfile.Symlink("lib", "usr/lib")})
		if err != nil {
			t.Fatal(err)
		}
		images := map[string]v1.Image{}
		for _, name := range []string{"a", "b", "c", "d"} {
			own, err := newLayer(context.Background(), []tarfile.Entry{tarfile.Text(name, 0o755, []byte(name))})
			if err != nil {
				t.Fatal(err)
			}
			image, err := newImage(entrypoint(name), shared, own)
			if err != nil {
				t.Fatal(err)
			}
			images[ControlPlane+"/"+name+":v1"] = image
		}
		entries, err := archive(images)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 1+4+1+4 { // manifest, configurations, the shared layer, the own ones
			t.Errorf("%d files", len(entries))
		}
		return written(t, entries)
	}
	first := pack()
	for range 5 {
		if !bytes.Equal(pack(), first) {
			t.Fatal("another archive")
		}
	}
}
