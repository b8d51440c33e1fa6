package rundir

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestAttackSecretNames checks that names that look secret are secret, and that leakrig does not take descriptions of
// secrets from an environment.
func TestAttackSecretNames(t *testing.T) {
	for name, want := range map[string]bool{
		"DB_PASS": true, "PASSPHRASE": true, "DATABASE_URL": true, "JWT": true, "X-Auth": true, "dbpass": true, "REDIS_URI": true,
		"SSH_KEY": true, "connectionString": true, "SENTRY_DSN": true, "GITHUB_PAT": true, "DB_PWD": true, "privateKey": true,
		"PWD": false, "OLDPWD": false, "GIT_ASKPASS": false, "COMPASS": false, "AUTHOR": false, "PATTERN": false, "HOME": false, "SSH_AUTH_SOCK": false,
	} {
		if LooksSecret(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	var s Secrets
	s.AddInherited([]string{
		"GITHUB_TOKEN=inherited-1", "TOKEN_FILE=inherited-no", "COOKIE_DOMAIN=example.org", "PROXY=http://u:inherited-2@h/", "X=ghp_0123456789abcdefghij",
		"AWS_SECRET_ACCESS_KEY=/", "PATH=/bin", "CLONE=https://inherited-3-0123456789@example.org/x",
	})
	if want := []string{"inherited-1", "u:inherited-2", "inherited-2", "ghp_0123456789abcdefghij", "inherited-3-0123456789"}; !slices.Equal(s, want) {
		t.Errorf("%q, want %q", s, want)
	}
}

// TestAttackParts checks that a part of a secret is a secret in every encoding.
func TestAttackParts(t *testing.T) {
	var s Secrets
	s.AddAll("Bearer planted-1", "sid=planted-2; theme=dark", "postgres://app:planted%2F3@db/x?sslmode=off", "Basic YXBwOnBsYW50ZWQtNA==",
		"planted 5 \"quoted\" <&>", "-----BEGIN KEY-----\nplanted-6-planted-6\n-----END KEY-----", `{"user": "me", "private_key": "planted-7"}`, "app:planted-8", "p-9a", "ab1")
	quoted, err := json.Marshal(`planted 5 "quoted" <&>`)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"planted-1", "xplanted-2x", "planted/3", "planted%2F3", "YXBwOnBsYW50ZWQtNA==", "planted-4", string(quoted), url.QueryEscape(`planted 5 "quoted" <&>`),
		"  planted-6-planted-6", "planted-7", "planted-8", "YXBwOnBsYW50ZWQtOA==", "is p-9a.",
	} {
		clean := s.RedactText(text)
		if !strings.Contains(clean, Redacted) || strings.Contains(clean, "lanted") || strings.Contains(clean, "p-9a") {
			t.Errorf("%s became %s", text, clean)
		}
	}
	// A short one only as a whole word, a very short one nowhere.
	if text := "step-9ab ab1 op-9a"; s.RedactText(text) != text {
		t.Errorf("%s became %s", text, s.RedactText(text))
	}
}

// A secret that is a word of the record takes nothing away that the record is read by.
func TestAttackWords(t *testing.T) {
	for _, word := range []string{"samples", "variants", "snapshots", "goroutine", "goroutine.count", "watch.receive", "chan send", "started", "2026-03-01"} {
		r := sampleRecord()
		r.Warnings = []string{"said " + word, "12 " + word}
		r.Parameters = map[string]string{"secret": word, "n": "123456"}
		var s Secrets
		s.AddAll(word, "123456")
		d := Dir(t.TempDir())
		if err := d.WriteRecord(r, s...); err != nil {
			t.Fatal(err)
		}
		got, err := d.ReadRecord()
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		want := []string{"said REDACTED", "12 REDACTED"}
		if !slices.Equal(got.Warnings, want) || got.Parameters["secret"] != Redacted || got.Parameters["n"] != "123456" {
			t.Errorf("%s: %q, %q", word, got.Warnings, got.Parameters)
		}
		got.Warnings, got.Parameters, r.Warnings, r.Parameters = nil, nil, nil, nil
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(r)
		if string(a) != string(b) {
			t.Errorf("%s: the record became\n%s", word, a)
		}
	}
}

// TestAttackCommandLines checks that leakrig finds credentials in command lines, and nothing else.
func TestAttackCommandLines(t *testing.T) {
	argv := []string{
		"curl", "-H", "Authorization: Bearer planted-1", "-HX-Api-Key: planted-2", "--header=X-Auth-Token: planted-3", "-u", "me:planted-4", "-ume:planted-5",
		"--cookie", "token=planted-6", "https://me:planted-7@h/x?access_token=planted-8&page=2", "--password", "planted-9", "--db-password=planted-10",
		"sh", "-c", "API_TOKEN=planted-11 curl -H 'Cookie: a=planted-12' -u me:planted-13 $TOKEN", "-d", `{"password": "planted-14"}`, "--token", "$TOKEN", "-u", "root", "--rate", "100000",
	}
	var s Secrets
	s.AddAll(CredentialsOf(argv)...)
	text := s.RedactText(strings.Join(argv, "\n"))
	if strings.Contains(text, "planted") {
		t.Errorf("left of it:\n%s", text)
	}
	for _, stays := range []string{"curl", "page=2", "$TOKEN", "root", "100000", "https://"} {
		if !strings.Contains(text, stays) {
			t.Errorf("%s is gone:\n%s", stays, text)
		}
	}
}

// A record that leads out of its run directory has no seal that holds, and nothing there is read.
func TestAttackHashes(t *testing.T) {
	d := Dir(t.TempDir())
	for _, name := range []string{"../x", "/etc/passwd", "a/../../x", ""} {
		if _, err := d.Hash(name); err == nil {
			t.Errorf("%q is read", name)
		}
	}
	r := sampleRecord()
	r.Variants[0].Snapshots[0].Samples[0].Files = []string{"/etc/hostname"}
	r.Hashes = map[string]string{"/etc/hostname": strings.Repeat("0", 64)}
	if err := d.WriteRecord(r); err != nil {
		t.Fatal(err)
	}
	if _, seal, err := d.ReadSealed(OfFiles); err != nil || seal.Holds() {
		t.Errorf("%v, %v", seal, err)
	}
}
