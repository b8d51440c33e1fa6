//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestInstalledVersion publishes the checkout as a version on a module proxy of this machine, installs it with
// go install as a user does, and runs a scenario of the library in an empty folder.
func TestInstalledVersion(t *testing.T) {
	t.Parallel()
	version := module.Version{Path: "github.com/leakrig/leakrig", Version: "v0.0.1-test"}
	proxy, bin, folder := t.TempDir(), t.TempDir(), t.TempDir()
	publish(t, filepath.Join(proxy, version.Path, "@v", version.Version), version)

	install := exec.Command("go", "install", version.Path+"/cmd/leakrig@"+version.Version)
	install.Dir = folder
	install.Env = append(os.Environ(), "GOWORK=off", "GOBIN="+bin, "GOPROXY=file://"+proxy+","+goEnv(t, "GOPROXY"), "GONOSUMDB="+version.Path)
	cached := goEnv(t, "GOMODCACHE")
	t.Cleanup(func() {
		for _, dir := range []string{filepath.Join(cached, version.String()), filepath.Join(cached, "cache", "download", version.Path)} {
			if out, err := exec.Command("chmod", "-R", "u+w", dir).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
	})
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	for _, c := range []struct{ args, want string }{
		{"--version", version.Version},
		{"run otel-global-meter --for 30s", "✓ otel-global-meter: leak found, as expected"},
	} {
		cmd := exec.Command(filepath.Join(bin, "leakrig"), strings.Fields(c.args)...)
		cmd.Dir, cmd.Env = folder, environ(t)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("leakrig %s: %v\n%s", c.args, err, out)
		}
	}
	met("go install")
}

// publish writes a version's files of the module proxy protocol (go help goproxy). path has no extension.
func publish(t *testing.T, path string, version module.Version) {
	t.Helper()
	tracked, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	clean := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(tracked), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(clean, name), data)
	}
	mod, err := os.ReadFile(filepath.Join(clean, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(filepath.Dir(path), "list"), []byte(version.Version+"\n"))
	writeFile(t, path+".mod", mod)
	writeFile(t, path+".info", []byte(`{"Version": "`+version.Version+`"}`))
	file, err := os.Create(path + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := zip.CreateFromDir(file, version, clean); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
