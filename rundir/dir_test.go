package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// names lists a folder, temporary files included.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteFile(t *testing.T) {
	d := Dir(t.TempDir())
	for _, content := range []string{"first", "the second, longer", ""} {
		if err := d.WriteFile("leaky/round-0/heap.pb.gz", []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(d.Path("leaky", "round-0", "heap.pb.gz"))
		if string(got) != content || err != nil {
			t.Errorf("read %q, %v, want %q", got, err, content)
		}
	}
	if got := names(t, d.Path("leaky", "round-0")); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	info, err := os.Stat(d.Path("leaky", "round-0", "heap.pb.gz"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("profiles may hold secrets, and are %v (%v)", info.Mode(), err)
	}
}

// A write that fails leaves what was there, no temporary file, and a hint.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	d := Dir(dir)
	// The target is a folder: the write to the temporary file succeeds, the rename does not.
	if err := os.MkdirAll(d.Path("run.json", "old"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The parent is a file: not even the temporary file can be made.
	if err := d.WriteFile("file", []byte("old")); err != nil {
		t.Fatal(err)
	}
	gone := Dir(filepath.Join(dir, "gone"))
	for _, c := range []struct {
		name string
		err  error
	}{
		{"the target is a folder", d.WriteFile("run.json", []byte("new"))},
		{"the parent is a file", d.WriteFile("file/below", []byte("new"))},
		{"the run directory was removed", gone.WriteFile("run.json", []byte("new"))},
		{"so for a record", gone.WriteRecord(&leak.Record{})},
	} {
		if c.err == nil || leak.Hint(c.err) == "" {
			t.Errorf("%s: %v, hint %q", c.name, c.err, leak.Hint(c.err))
		}
	}
	if got := strings.Join(names(t, dir), " "); got != "file run.json" {
		t.Errorf("in the folder: %s", got)
	}
	if old, _ := os.ReadFile(d.Path("file")); string(old) != "old" {
		t.Errorf("the old content became %q", old)
	}
}

func sampleRecord() *leak.Record {
	creator := leak.Frame{Func: "watch.New", Line: 40}
	stack := leak.Stack{State: "chan send", Frames: []leak.Frame{{Func: "watch.receive", File: "w.go", Line: 76}}, Creator: &creator}
	at := time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.UTC)
	return &leak.Record{
		Schema: leak.RecordSchema, Scenario: "s", Leakrig: "v1", Started: at,
		Metrics: map[string]leak.Metric{"goroutine.count": {Name: "count", Unit: "goroutines"}},
		Plan:    leak.Plan{Variants: []string{"leaky"}, Warmup: 1, Rounds: 5},
		Variants: []leak.VariantRecord{{
			Name: "leaky", Stacks: map[string]leak.Stack{stack.ID(): stack},
			Snapshots: []leak.Snapshot{{
				Time: at, Settle: leak.SettleResult{Settled: true, Reason: "“quiet”", Seconds: 2, Polls: 10},
				Samples: []leak.Sample{{
					Probe: "goroutine", Values: map[string]float64{"count": 8},
					Groups: map[string][]leak.Group{"dump": {{Stack: stack.ID(), Count: 8}}}, Files: []string{"leaky/round-0/goroutine.pb.gz"},
				}},
			}},
		}},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	d, want := Dir(t.TempDir()), sampleRecord()
	if err := d.WriteRecord(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.ReadRecord()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v, %v", got, err)
	}
	v := got.Variant("leaky")
	if v == nil || got.Variant("fixed") != nil {
		t.Fatalf("variants leaky %v, fixed %v", v, got.Variant("fixed"))
	}
	if v.Final() != &v.Snapshots[0] || v.Final().Sample("goroutine") == nil || v.Final().Sample("heap") != nil {
		t.Error("the samples are not found")
	}
	if (&leak.VariantRecord{}).Final() != nil {
		t.Error("a variant without snapshots has a final one")
	}
}

// TestReadRecordTruncated checks that a truncated record is reported as such and returns the complete rounds before
// the cut.
func TestReadRecordTruncated(t *testing.T) {
	d := Dir(t.TempDir())
	want, whole := threeRounds(t, d)
	rounds := 0
	for n := range len(bytes.TrimSpace(whole)) {
		if err := os.WriteFile(d.Path(RecordFile), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := d.ReadRecord()
		if err != nil {
			if r != nil || leak.Hint(err) == "" || rounds > 0 {
				t.Fatalf("cut after %d of %d bytes: %v, %v", n, len(whole), r, err)
			}
			continue
		}
		v := r.Variant("leaky")
		if r.Failure == nil || r.Failure.Hint == "" || len(v.Snapshots) < rounds || len(v.Snapshots) > rounds+1 {
			t.Fatalf("cut after %d of %d bytes: %+v, %d rounds after %d", n, len(whole), r.Failure, len(v.Snapshots), rounds)
		}
		rounds = len(v.Snapshots)
		if all := want.Variant("leaky"); !reflect.DeepEqual(v.Snapshots, all.Snapshots[:rounds]) || !reflect.DeepEqual(v.Stacks, all.Stacks) {
			t.Fatalf("cut after %d of %d bytes: read %+v", n, len(whole), v)
		}
	}
	if rounds != 3 {
		t.Errorf("%d rounds were read of a record that lost its last byte", rounds)
	}
}

// TestReadRecordCorrupted checks that a record with any changed byte is reported as such.
func TestReadRecordCorrupted(t *testing.T) {
	d := Dir(t.TempDir())
	_, whole := threeRounds(t, d)
	for i := range whole {
		others := []byte{'"', '7', ',', '}', ' ', 0, 0xff}
		other := others[i%len(others)]
		if whole[i] == other {
			continue
		}
		text := bytes.Clone(whole)
		text[i] = other
		if err := os.WriteFile(d.Path(RecordFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := d.ReadRecord(); err == nil && r.Failure == nil && len(r.Warnings) == 0 {
			t.Fatalf("byte %d of %d became %q, undetected:\n%s", i, len(whole), other, text)
		}
	}
}

// FuzzReadRecord checks that run.json is read, salvaged, or refused with a reason.
func FuzzReadRecord(f *testing.F) {
	_, whole := threeRounds(f, Dir(f.TempDir()))
	f.Add(whole)
	f.Add(whole[:len(whole)*2/3])
	f.Add([]byte(`{"schema":1,"variants":[{"snapshots":[{"round":-1},{}]}]}`))
	d := Dir(f.TempDir())
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(d.Path(RecordFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := d.ReadRecord()
		switch {
		case err != nil && (r != nil || leak.Hint(err) == ""):
			t.Errorf("%v, %v, hint %q", r, err, leak.Hint(err))
		case err == nil && (r.Schema < 1 || r.Schema > leak.RecordSchema):
			t.Errorf("schema %d was read", r.Schema)
		case err == nil:
			for i := range r.Variants { // what everything that reads a record asks first
				r.Variants[i].Final()
				r.Variants[i].Probes("goroutine")
			}
		}
	})
}

// threeRounds writes a record with three snapshots and returns it, and its text.
func threeRounds(t testing.TB, d Dir) (*leak.Record, []byte) {
	t.Helper()
	r := sampleRecord()
	v := &r.Variants[0]
	v.Snapshots = append(v.Snapshots, v.Snapshots[0], v.Snapshots[0])
	if err := d.WriteRecord(r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(d.Path(RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	return r, text
}

func TestReadRecordRefuses(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"garbage", "\x00\xff{", "read run.json: invalid character"},
		{"another type", `{"schema":1,"variants":{}}`, "cannot unmarshal object"},
		{"more behind it", `{"schema":1}{"schema":1}`, "after top-level value"},
		{"nothing in it", `{}`, "no schema version"},
		{"null", `null`, "no schema version"},
		{"negative", `{"schema":-1}`, "no schema version"},
		{"a newer schema", fmt.Sprintf(`{"schema":%d}`, leak.RecordSchema+1), "written with schema 3, this build reads up to 2"},
	} {
		d := Dir(t.TempDir())
		if err := d.WriteFile(RecordFile, []byte(c.content)); err != nil {
			t.Fatal(err)
		}
		r, err := d.ReadRecord()
		if err == nil || r != nil || !strings.Contains(err.Error(), c.want) || leak.Hint(err) == "" {
			t.Errorf("%s: %v, %v (hint %q)", c.name, r, err, leak.Hint(err))
		}
	}
	for name, read := range map[string]func(Dir) error{
		"record":  func(d Dir) error { _, err := d.ReadRecord(); return err },
		"verdict": func(d Dir) error { _, err := d.ReadVerdict(); return err },
	} {
		// Not a run directory, or none at all.
		for _, d := range []Dir{Dir(t.TempDir()), Dir(filepath.Join(t.TempDir(), "none"))} {
			if err := read(d); !errors.Is(err, os.ErrNotExist) || !strings.Contains(leak.Hint(err), "leakrig run") {
				t.Errorf("%s: %v (hint %q)", name, err, leak.Hint(err))
			}
		}
	}
}

func TestHint(t *testing.T) {
	plain := errors.New("broken")
	inner := leak.WithHint(plain, "mend %s", "it")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{plain, ""},
		{inner, "mend it"},
		{fmt.Errorf("round 3: %w", inner), "mend it"},                     // through a wrap
		{errors.Join(plain, inner), "mend it"},                            // among others
		{leak.WithHint(fmt.Errorf("round 3: %w", inner), "stop"), "stop"}, // the outermost wins
		{&DiskError{inner}, "mend it"},
		{&leak.UsageError{Err: inner}, "mend it"},
	} {
		if got := leak.Hint(c.err); got != c.want {
			t.Errorf("hint of %v is %q, want %q", c.err, got, c.want)
		}
	}
	if leak.WithHint(nil, "x") != nil {
		t.Error("a hint made an error of nothing")
	}
	if inner.Error() != "broken" || !errors.Is(inner, plain) {
		t.Errorf("the hint changed the error: %v", inner)
	}
}
