package subjects

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

func fetched(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReplicas checks that replicas are separate processes with separate addresses and logs, and end together.
func TestReplicas(t *testing.T) {
	dir := t.TempDir()
	s, err := start(t.Context(), "ready", dir, func(s *leak.SubjectSpec) { s.Replicas = 3 })
	if err != nil {
		t.Fatal(err)
	}
	all := s.(leak.Replicated).Replicas()
	target := s.Target()
	if len(all) != 3 || len(target.Replicas) != 3 || target.URL != target.Replicas[0].URL || target.Proc == nil {
		t.Fatalf("%d replicas, %+v", len(all), target)
	}
	var pids []string
	for i, one := range target.Replicas {
		if one.URL != all[i].Target().URL || one.Pprof == "" || one.Replicas != nil {
			t.Errorf("replica %d: %+v", i+1, one)
		}
		pids = append(pids, fetched(t, one.URL+"/pid"))
		log, err := os.ReadFile(filepath.Join(dir, rundir.ReplicaDir(i+1), "subject.log"))
		if err != nil || !strings.Contains(string(log), "listening") {
			t.Errorf("replica %d: log %q, %v", i+1, log, err)
		}
	}
	slices.Sort(pids)
	if len(slices.Compact(pids)) != 3 {
		t.Errorf("they are %v", pids)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	for i, one := range all {
		select {
		case <-one.Done():
		default:
			t.Errorf("replica %d runs on", i+1)
		}
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

// One that dies is named, with its last words.
func TestReplicaDies(t *testing.T) {
	s, err := start(t.Context(), "ready", t.TempDir(), func(s *leak.SubjectSpec) { s.Replicas = 2 })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop(context.Background()) }()
	_, _ = http.Get(s.Target().Replicas[1].URL + "/die")
	select {
	case <-s.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("nobody noticed")
	}
	if err := s.Err(); err == nil || !strings.HasPrefix(err.Error(), "replica 2: subject leaky died") || !strings.Contains(err.Error(), "out of cheese") {
		t.Errorf("%v", err)
	}
}

// What starts before one that fails is not left behind.
func TestReplicaFailsToStart(t *testing.T) {
	_, err := start(t.Context(), "exits", t.TempDir(), func(s *leak.SubjectSpec) { s.Replicas = 2 })
	if err == nil || !strings.HasPrefix(err.Error(), "replica 1 of 2: subject leaky died") {
		t.Errorf("%v", err)
	}
	l := &Launcher{Spec: leak.SubjectSpec{Command: []string{os.Args[0]}, Replicas: 2, Port: 8080}}
	if err := l.Check(nil); err == nil || leak.Hint(err) == "" || !strings.Contains(err.Error(), "2 replicas cannot all listen on 8080") {
		t.Errorf("%v", err)
	}
}

// Replicas that run already are only read.
func TestReplicasByURL(t *testing.T) {
	l := &Launcher{Spec: leak.SubjectSpec{URLs: []string{"http://127.0.0.1:1/a", "http://127.0.0.1:2"}, Pprof: "/debug/pprof"}}
	if err := l.Check(nil); err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(t.Context(), leak.Variant{Name: "observed"}, nil, filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	target := s.Target()
	if len(target.Replicas) != 2 || target.Replicas[0].Pprof != "http://127.0.0.1:1/a/debug/pprof" || target.Replicas[1].URL != "http://127.0.0.1:2" {
		t.Errorf("%+v", target)
	}
	if infos := s.(leak.Replicated).Replicas(); infos[1].Info().Command[0] != "http://127.0.0.1:2" {
		t.Errorf("%+v", infos[1].Info())
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
