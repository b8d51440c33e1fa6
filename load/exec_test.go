package load

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/leakrig/leakrig/leak"
)

// apiServer answers what the exec action asks, over TLS: the pods, and their execs.
type apiServer struct {
	leak.Target
	kubelet
	pods          []string
	query         string // of the list of pods
	open, resumed atomic.Int64
}

func serveAPI(t *testing.T, pods ...string) *apiServer {
	t.Helper()
	s := &apiServer{pods: pods}
	s.over = make(chan struct{})
	hs := httptest.NewUnstartedServer(s)
	hs.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.open.Add(-1)
		}
	}
	hs.StartTLS()
	t.Cleanup(func() { close(s.over); hs.Close() })
	s.Target = leak.Target{
		Namespace: "run-1", Selector: "app=subject",
		Kubeconfig: writeKubeconfig(t, hs.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hs.Certificate().Raw})),
	}
	return s
}

func writeKubeconfig(t *testing.T, url string, ca []byte) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "let me in"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "of-the-context"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer let me in" {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/exec") {
		if r.TLS.DidResume {
			s.resumed.Add(1)
		}
		s.kubelet.ServeHTTP(w, r)
		return
	}
	s.query = r.URL.String()
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, name := range s.pods {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	leaving := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "leaving", DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	list.Items = append(list.Items, leaving)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// execAction is an Exec with its defaults, as a scenario would change it.
func execAction(change func(*Exec)) *Exec {
	e := execKind.New().(*Exec)
	e.Command = []string{"say", "op", "{{.Op}}"}
	change(e)
	return e
}

// perProtocol runs a test with either protocol.
func perProtocol(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, protocol := range []string{protocolWebSocket, protocolSPDY} {
		t.Run(protocol, func(t *testing.T) { test(t, protocol) })
	}
}

// nothingLeft fails when goroutines of client-go's streams stay. A websocket's heartbeat sees only with
// its next beat, within five seconds, that its connection is gone: one test waits for it.
func nothingLeft(t *testing.T, heartbeats bool) {
	t.Helper()
	eventually(t, func() string {
		var dump strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&dump, 2)
		for stack := range strings.SplitSeq(dump.String(), "\n\n") {
			if heartbeats && strings.Contains(stack, "(*heartbeat).start") {
				continue
			}
			server := strings.Contains(stack, "load.(*kubelet)") || strings.Contains(stack, "wsstream") || strings.Contains(stack, "net/http.(*conn)")
			if !server && (strings.Contains(stack, "remotecommand.") || strings.Contains(stack, "gorilla/websocket") || strings.Contains(stack, "spdystream") || strings.Contains(stack, "load.(*api)")) {
				return "left behind:\n" + stack
			}
		}
		return ""
	})
}

func runExec(t *testing.T, e *Exec, s *apiServer, first int) leak.Tally {
	t.Helper()
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	tally, err := e.Run(t.Context(), s.Target, first)
	if err != nil {
		t.Fatal(err)
	}
	if tally.Attempted != tally.Succeeded+tally.Failed || tally.TimedOut+tally.Silent > tally.Failed {
		t.Errorf("does not add up: %+v", tally)
	}
	return tally
}

// Every operation is one exec, with its number, in the pods by turns.
func TestExecOperations(t *testing.T) {
	perProtocol(t, func(t *testing.T, protocol string) {
		s := serveAPI(t, "a", "b")
		tally := runExec(t, execAction(func(e *Exec) {
			e.Protocol, e.Container, e.Output = protocol, "main", `^op \d+\n$`
			e.Times, e.Concurrency = 20, 5
		}), s, 101)
		if tally.Attempted != 20 || tally.Succeeded != 20 {
			t.Fatalf("%+v", tally)
		}
		var ops []string
		per := map[string]int{}
		for _, r := range s.seen() {
			if r.protocol != protocol || r.container != "main" || r.tty {
				t.Errorf("%+v", r)
			}
			ops = append(ops, r.command[2])
			per[r.path]++
		}
		slices.Sort(ops)
		if ops[0] != "101" || ops[19] != "120" || len(slices.Compact(ops)) != 20 {
			t.Errorf("operations %v", ops)
		}
		if per["/api/v1/namespaces/run-1/pods/a/exec"] != 10 || per["/api/v1/namespaces/run-1/pods/b/exec"] != 10 {
			t.Errorf("%v", per)
		}
		if want := "/api/v1/namespaces/run-1/pods?fieldSelector=status.phase%3DRunning&labelSelector=app%3Dsubject&limit=1000"; s.query != want {
			t.Errorf("asked for %s", s.query)
		}
		// All but the first few at once take the short handshake.
		if s.resumed.Load() < 10 {
			t.Errorf("%d of 20 connections resumed a TLS session", s.resumed.Load())
		}
		nothingLeft(t, false)
		eventually(t, func() string {
			if n := s.open.Load(); n != 0 {
				return fmt.Sprintf("%d connections were left behind", n)
			}
			return ""
		})
	})
}

// How an exec can end, and how it is counted.
func TestExecEnds(t *testing.T) {
	perProtocol(t, func(t *testing.T, protocol string) {
		t.Parallel()
		const times = 6
		for _, c := range []struct {
			name             string
			change           func(*Exec)
			timedOut, silent int
			want             string // "" is success
		}{
			{"no output is asked for", func(e *Exec) { e.Command = []string{"silent"} }, 0, 0, ""},
			{"the output that is asked for", func(e *Exec) { e.Output = "op" }, 0, 0, ""},
			{"returns without it", func(e *Exec) { e.Command, e.Output = []string{"silent"}, "." }, 0, times, "returned without its output"},
			{"returns with another", func(e *Exec) { e.Command, e.Output = []string{"say", "hello"}, "bin" }, 0, times, "returned without its output: hello"},
			{"much output", func(e *Exec) { e.Command, e.Output = []string{"flood"}, "^x{99}\n" }, 0, 0, ""},
			{"output beyond what is looked at", func(e *Exec) { e.Command, e.Output = []string{"flood"}, "the end" }, 0, times, "returned without its output: the end"},
			{"another exit code", func(e *Exec) { e.Command = []string{"fail", "sub-{{.Op}}"} }, 0, 0, "exit code 3, want 0: sub-"},
			{"the exit code that is asked for", func(e *Exec) { e.Command, e.Exit = []string{"fail", "x"}, 3 }, 0, 0, ""},
			{"success where a failure is asked for", func(e *Exec) { e.Exit = 3 }, 0, 0, "exit code 0, want 3"},
			{"standard input", func(e *Exec) {
				e.Command, e.Stdin, e.Output = []string{"cat"}, "line {{.Op}}\n", `line \d+\n`
			}, 0, 0, ""},
			{"a terminal", func(e *Exec) { e.TTY, e.Output = true, "op" }, 0, 0, ""},
			{"refused", func(e *Exec) { e.Command = []string{"refused"} }, 0, 0, "no exec here"},
			{"cut", func(e *Exec) { e.Command = []string{"hang-up"} }, 0, 0, "EOF"},
			{"hangs", func(e *Exec) { e.Command = []string{"hang"} }, times, 0, "timed out"},
			{"hangs after its output", func(e *Exec) { e.Command, e.Output = []string{"half"}, "half" }, times, 0, "timed out"},
			{"hangs before the upgrade", func(e *Exec) { e.Command = []string{"never-upgraded"} }, times, 0, "timed out"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := serveAPI(t, "a")
				tally := runExec(t, execAction(func(e *Exec) {
					e.Protocol, e.Times, e.Concurrency = protocol, times, 3
					c.change(e)
					if c.timedOut > 0 {
						e.Timeout = leak.Duration(100 * time.Millisecond)
					}
				}), s, 1)
				if tally.TimedOut != c.timedOut || tally.Silent != c.silent || (tally.Failed != 0) != (c.want != "") {
					t.Errorf("%+v", tally)
				}
				if c.want != "" && (len(tally.Errors) != 1 || tally.Errors[0].Count != times || !strings.Contains(tally.Errors[0].Message, c.want)) {
					t.Errorf("errors %+v, want one like %q", tally.Errors, c.want)
				}
				if c.timedOut > 0 && tally.Seconds > 5 {
					t.Errorf("took %.1fs", tally.Seconds)
				}
				// At a deadline of a tenth of a second not every exec need have arrived.
				for _, r := range s.seen() {
					if r.tty != strings.Contains(c.name, "terminal") {
						t.Errorf("%+v", r)
					}
				}
			})
		}
		nothingLeft(t, true) // once: what is late to end has five seconds to do so
	})
}

// A connection that accepts and says nothing at all, not even TLS; and one that takes nothing any more.
func TestExecDeafServer(t *testing.T) {
	perProtocol(t, func(t *testing.T, protocol string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, scheme := range []string{"https://", "http://"} {
			a, err := reach(leak.Target{Kubeconfig: writeKubeconfig(t, scheme+l.Addr().String(), nil)})
			if err != nil {
				t.Fatal(err)
			}
			defer a.close()
			tally := perform(t.Context(), pace{Times: 4, Concurrency: 4, Timeout: leak.Duration(100 * time.Millisecond)}, 1, nil, func(ctx context.Context, _ int) error {
				_, err := a.exec(ctx, protocol, a.client.CoreV1().RESTClient().Post().AbsPath("/exec").URL(), remotecommand.StreamOptions{Stdout: &captured{}})
				return err
			}).tally()
			if tally.TimedOut != 4 || tally.Seconds > 5 {
				t.Errorf("%s: %+v", scheme, tally)
			}
		}
		nothingLeft(t, true)
	})
}

// An interrupt ends the execs under way at once.
func TestExecCancelled(t *testing.T) {
	perProtocol(t, func(t *testing.T, protocol string) {
		for _, hang := range []string{"hang", "never-upgraded"} {
			s := serveAPI(t, "a")
			ctx, cancel := context.WithCancelCause(t.Context())
			var once sync.WaitGroup
			once.Go(func() {
				eventually(t, func() string {
					s.mu.Lock()
					defer s.mu.Unlock()
					if s.hanging < 3 {
						return "not all hang yet"
					}
					return ""
				})
				cancel(errors.New("the subject died"))
			})
			start := time.Now()
			tally, err := execAction(func(e *Exec) { e.Protocol, e.Command, e.Times, e.Concurrency = protocol, []string{hang}, 100, 3 }).Run(ctx, s.Target, 1)
			once.Wait()
			if err != nil || tally.Attempted != 3 || tally.Failed != 3 || tally.TimedOut != 0 || time.Since(start) > 10*time.Second {
				t.Errorf("%s: %+v, %v after %s", hang, tally, err, time.Since(start))
			}
			nothingLeft(t, true)
		}
	})
}

// What stops the load as a whole is an error with a hint, not a tally.
func TestExecCannotRun(t *testing.T) {
	t.Parallel() // it waits for pods that do not come
	s := serveAPI(t)
	for _, c := range []struct {
		name   string
		target leak.Target
		want   string
	}{
		{"no cluster", leak.Target{}, "no cluster"},
		{"no pod matches", s.Target, "no running pod in namespace run-1 matches app=subject"},
		{"the subject is not a pod", leak.Target{Kubeconfig: s.Kubeconfig}, "the subject is not a pod"},
	} {
		_, err := execAction(func(*Exec) {}).Run(t.Context(), c.target, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) || leak.Hint(err) == "" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := execAction(func(*Exec) {}).Run(t.Context(), leak.Target{Kubeconfig: filepath.Join(t.TempDir(), "gone")}, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no kubeconfig: %v", err)
	}
}

func TestExecValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Exec)
		want   string
	}{
		{"the defaults, and a command", func(*Exec) {}, ""},
		{"everything at once", func(e *Exec) {
			*e = Exec{Command: []string{"", "{{.Opp}}"}, Stdin: "{{", podsOf: podsOf{Selector: "a=b=c"}, expected: expected{Exit: 256, Output: "("}}
		}, "command command stdin protocol selector times concurrency timeout exit output"},
		{"a namespace alone", func(e *Exec) { e.Namespace = "kube-system" }, "namespace"},
		{"a selector alone", func(e *Exec) { e.Selector = "app=web,tier!=cache" }, ""},
		{"a protocol of old", func(e *Exec) { e.Protocol = "SPDY" }, "protocol"},
	} {
		problemFields(t, c.name, execAction(c.change).Validate(), c.want)
	}
}
