package subjectpod

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Resident reads the subject's memory from the kubelet's summary, with the kubelet's own time: it looks
// every ten seconds or so.
func (p *Pod) Resident(ctx context.Context) (float64, time.Time, error) {
	data, err := p.Client.CoreV1().RESTClient().Get().
		Resource("nodes").Name(p.node).SubResource("proxy").Suffix("stats/summary").DoRaw(ctx)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("the kubelet's summary: %w", err)
	}
	var summary struct {
		Pods []struct {
			PodRef     struct{ Name, Namespace string }
			Containers []struct {
				Name   string
				Memory struct {
					Time     time.Time
					RSSBytes *uint64
				}
			}
		}
	}
	if err := json.Unmarshal(data, &summary); err != nil {
		return 0, time.Time{}, fmt.Errorf("the kubelet's summary: %w", err)
	}
	for _, pod := range summary.Pods {
		if pod.PodRef.Name != p.name || pod.PodRef.Namespace != p.Namespace {
			continue
		}
		for _, c := range pod.Containers {
			if c.Name == subjectName && c.Memory.RSSBytes != nil {
				return float64(*c.Memory.RSSBytes), c.Memory.Time, nil
			}
		}
	}
	// It has not looked at the pod yet: the zero time is older than any question.
	return 0, time.Time{}, nil
}
