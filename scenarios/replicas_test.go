package scenarios

import (
	"slices"
	"strings"
	"testing"
)

const replicated = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: replicated}
spec:
  subject:
    build: ./server
    replicas: 3
  variants:
    - {name: current, expect: clean}
  round: [post: {path: /a, times: 3}]
  probes: [goroutine]
  checks:
    - delta: {probe: goroutine, max: 0}
`

func TestReplicas(t *testing.T) {
	s, err := load(replicated)
	if err != nil || s.Spec.Subject.Copies() != 3 {
		t.Fatalf("%v, %+v", err, s)
	}
	const started = "    build: ./server\n    replicas: 3\n"
	s, err = load(strings.Replace(replicated, started, "    urls: [http://a:1, https://b/x]\n", 1))
	if err != nil || s.Spec.Subject.Copies() != 2 || !slices.Equal(s.Spec.Subject.Addresses(), []string{"http://a:1", "https://b/x"}) {
		t.Fatalf("%v, %+v", err, s)
	}
	for _, row := range []struct{ comment, new, want string }{
		{"none", "    build: ./server\n    replicas: 0\n", "7:15: spec.subject.replicas: 0 is not between 1 and 256"},
		{"too many", "    build: ./server\n    replicas: 257\n", "7:15: spec.subject.replicas: 257 is not between 1 and 256"},
		{"of what runs already", "    url: http://a\n    replicas: 2\n", "7:15: spec.subject.replicas: a program that runs already is not started | list the addresses of all of them as urls"},
		{"url and urls", "    url: http://a\n    urls: [http://b]\n", "7:11: spec.subject.urls: a program is either started or runs already, at url or at urls | keep one of them"},
		{"no address", "    urls: []\n", "6:11: spec.subject.urls: 0 addresses are not between 1 and 256"},
		{"one twice", "    urls: [http://a, http://a]\n", `6:22: spec.subject.urls[1]: "http://a" is listed twice`},
		{"one that is none", "    urls: [http://a, 'b:80']\n", `6:22: spec.subject.urls[1]: "b:80" is not an address | as in https://127.0.0.1:6060/admin or unix:///run/app.sock`},
		{
			"a certificate without its key is reported once", "    urls: [http://a, http://b]\n    access: {cert: a.pem}\n",
			"7:13: spec.subject.access: a certificate without its key, or a key without its certificate | give cert and key",
		},
		{
			"beside components", "    build: ./server\n    replicas: 2\n    components: [{component: kubelet, probes: [goroutine]}]\n  cluster: {providers: [embedded]}\n",
			"7:15: spec.subject.replicas: components cannot be combined with several replicas of a program | leave one of them out",
		},
	} {
		_, err := load(strings.Replace(replicated, started, row.new, 1))
		if got := brief(err); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.comment, got, row.want)
		}
	}
}
