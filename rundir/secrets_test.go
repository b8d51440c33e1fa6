package rundir

import (
	"encoding/json"
	"testing"
)

func TestLooksSecret(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "Cookie": true, "X-Api-Key": true, "API_TOKEN": true, "DB_PASSWORD": true, "PASSWD": true,
		"CLIENT_SECRET": true, "aws-access-key": true, "Content-Type": false, "GOMAXPROCS": false, "KEYBOARD": false, "PATH": false,
	} {
		if LooksSecret(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestRedact(t *testing.T) {
	var s Secrets
	for _, v := range []string{"hunter2", "hunter2-and-more", "short", `a"b<cd`, "hunter2"} {
		s.Add(v)
	}
	if len(s) != 3 {
		t.Errorf("%q", s)
	}
	record, err := json.Marshal(map[string]string{"log": `said hunter2-and-more, hunter2 and a"b<cd, short`})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.Redact(record)), `{"log":"said REDACTED, REDACTED and REDACTED, short"}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
