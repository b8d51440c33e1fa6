package leak

import (
	"reflect"
	"testing"
)

func TestEach(t *testing.T) {
	alone := VariantRecord{Name: "leaky", Snapshots: []Snapshot{{}}}
	if got := alone.Each(); len(got) != 1 || !reflect.DeepEqual(got[0], alone) {
		t.Errorf("alone: %+v", got)
	}
	failure := &Failure{Message: "it died"}
	two := VariantRecord{
		Name: "leaky", Replica: 1, Failure: failure, Stopped: "decided",
		Replicas: []VariantRecord{{Name: "leaky", Replica: 2, Snapshots: []Snapshot{{}, {}}}},
	}
	got := two.Each()
	if len(got) != 2 || got[0].Replica != 1 || got[0].Replicas != nil || got[1].Replica != 2 || len(got[1].Snapshots) != 2 {
		t.Fatalf("%+v", got)
	}
	if got[1].Failure != failure || got[1].Stopped != "decided" {
		t.Errorf("the second knows nothing of what happened to the variant: %+v", got[1])
	}
	if len(two.Replicas) != 1 || two.Replicas[0].Failure != nil {
		t.Errorf("the record was changed: %+v", two)
	}
}

func TestShare(t *testing.T) {
	whole := Tally{Action: "post", Attempted: 3, Shares: []Tally{{Attempted: 2}, {Attempted: 1}}}
	for i, want := range []Tally{{Action: "post", Attempted: 2}, {Action: "post", Attempted: 1}} {
		if got := whole.Share(i); !reflect.DeepEqual(got, want) {
			t.Errorf("share %d: %+v", i, got)
		}
	}
	// A tally of no single replica counts for each.
	if got := (Tally{Action: "churn", Attempted: 3}).Share(1); got.Attempted != 3 || got.Action != "churn" {
		t.Errorf("%+v", got)
	}
}

func TestCopies(t *testing.T) {
	for _, c := range []struct {
		spec SubjectSpec
		want int
	}{
		{SubjectSpec{}, 1}, {SubjectSpec{Build: "x"}, 1}, {SubjectSpec{Replicas: 3}, 3}, {SubjectSpec{URL: "a"}, 1}, {SubjectSpec{URLs: []string{"a", "b"}}, 2},
	} {
		if got := c.spec.Copies(); got != c.want {
			t.Errorf("%+v: %d copies", c.spec, got)
		}
	}
}

func TestShown(t *testing.T) {
	r := &Record{Variants: []VariantRecord{
		{Name: "leaky", Replica: 1, Warnings: []string{"a"}, Replicas: []VariantRecord{{Name: "leaky", Replica: 2, Warnings: []string{"b"}, Stopped: ""}}},
		{Name: "fixed"},
	}}
	for replica, want := range map[int]int{0: 1, 1: 1, 2: 2, 3: 1, -1: 1} {
		got := r.Shown(&Verdict{Variants: []VariantVerdict{{Variant: "leaky", Replica: replica}}}).Variant("leaky")
		if got.Replica != want || len(got.Replicas) != 0 || !reflect.DeepEqual(got.Warnings, []string{"replica 1: a", "replica 2: b"}) {
			t.Errorf("%d: %+v", replica, got)
		}
	}
	if len(r.Variants[0].Replicas) != 1 || len(r.Variants[0].Warnings) != 1 {
		t.Errorf("the record was changed: %+v", r)
	}
}
