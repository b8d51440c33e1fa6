package reports

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

func TestUpstream(t *testing.T) {
	info := leak.SubjectInfo{GoVersion: "go1.26.8", Modules: []leak.Module{{Path: "github.com/a/b", Version: "v1.0.0", Replace: "github.com/fork/b v1.0.1"}}}
	for file, want := range map[string]string{
		"k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go":        "https://github.com/kubernetes/apimachinery/blob/v0.18.8/pkg/watch/streamwatcher.go#L7",
		"k8s.io/klog/v2@v2.140.0/klog.go":                               "https://github.com/kubernetes/klog/blob/v2.140.0/klog.go#L7",
		"k8s.io/utils@v0.0.0-20260626114624-be93311217bd/net/net.go":    "https://github.com/kubernetes/utils/blob/be93311217bd/net/net.go#L7",
		"github.com/containerd/ttrpc@v1.0.2/server.go":                  "https://github.com/containerd/ttrpc/blob/v1.0.2/server.go#L7",
		"github.com/Azure/azure-sdk@v68.0.0+incompatible/x.go":          "https://github.com/Azure/azure-sdk/blob/v68.0.0/x.go#L7",
		"github.com/aws/sdk/service/s3@v1.2.3/api.go":                   "https://github.com/aws/sdk/blob/service/s3/v1.2.3/service/s3/api.go#L7",
		"github.com/a/b@v1.0.0/b.go":                                    "https://github.com/fork/b/blob/v1.0.1/b.go#L7",
		"go.etcd.io/etcd/server/v3@v3.6.5/etcdserver/server.go":         "https://github.com/etcd-io/etcd/blob/server/v3.6.5/server/etcdserver/server.go#L7",
		"sigs.k8s.io/structured-merge-diff/v6@v6.4.2/typed/x.go":        "https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.4.2/typed/x.go#L7",
		"golang.org/x/net@v0.59.0/http2/transport.go":                   "https://github.com/golang/net/blob/v0.59.0/http2/transport.go#L7",
		"gopkg.in/yaml.v3@v3.0.1/yaml.go":                               "https://github.com/go-yaml/yaml/blob/v3.0.1/yaml.go#L7",
		"gopkg.in/natefinch/lumberjack.v2@v2.2.1/lumberjack.go":         "https://github.com/natefinch/lumberjack/blob/v2.2.1/lumberjack.go#L7",
		"google.golang.org/grpc@v1.60.0/server.go":                      "https://github.com/grpc/grpc-go/blob/v1.60.0/server.go#L7",
		"go.uber.org/zap@v1.27.0/zap.go":                                "https://github.com/uber-go/zap/blob/v1.27.0/zap.go#L7",
		"net/http/server.go":                                            "https://github.com/golang/go/blob/go1.26.8/src/net/http/server.go#L7",
		"github.com/a/c@v0.1.1-0.20200101000000-0123456789ab/c.go":      "https://github.com/a/c/blob/0123456789ab/c.go#L7",
		"github.com/a/c@v1.0.0/a b/\"><script>.go":                      "https://github.com/a/c/blob/v1.0.0/a%20b/%22%3E%3Cscript%3E.go#L7",
		"github.com/a/c@v1.0.0?x/c.go":                                  "",
		"example.com/private@v1.0.0/x.go":                               "",
		"github.com/leakrig/leakrig/subjects/watch-then-delete/main.go": "",
		"javascript:alert(1)//github.com/a/b@v1.0.0/x.go":               "",
		"k8s.io/apimachinery@v0.18.8/../../../etc/passwd":               "",
	} {
		if got := upstream(info, leak.Frame{File: file, Line: 7}); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", file, got, want)
		}
	}
	if got := upstream(leak.SubjectInfo{GoVersion: "devel go1.28-abc"}, leak.Frame{File: "net/http/server.go", Line: 7}); got != "" {
		t.Errorf("a Go without a tag: %s", got)
	}
}

func TestExcerptsOnThePage(t *testing.T) {
	in := fixture()
	frames := SourceFrames(in)
	if len(frames) == 0 || frames[0].Frame.Short() != "watch.(*StreamWatcher).receive" || frames[1].Frame.Short() != "watch.NewStreamWatcher" {
		t.Fatalf("%+v", frames)
	}
	in.Sources = rundir.Sources{frames[0].Subject.SourceKey(frames[0].Frame): {First: 124, Lines: []string{"\tdefer sw.Stop()", "\tfor {", "\t<script>", "\t\tsw.result <- Event{", "", "", ""}}}
	page := render(t, "html", in)
	checkHTML(t, page)
	for _, want := range []string{
		`<span>  127</span>      sw.result &lt;- Event{`, "&lt;script&gt;", `<mark>`,
		`href="https://github.com/kubernetes/apimachinery/blob/v0.18.8/pkg/watch/streamwatcher.go#L127"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	// Only the card of a leaking variant names the line.
	if n := strings.Count(page, `<p class="culprit"><code>sw.result &lt;- Event{</code><a href="https://github.com/kubernetes/apimachinery/`); n != 2 {
		t.Errorf("%d cards name the line", n) // leaky and natural leak at the same line
	}
	if n := strings.Count(page, `<p class="culprit">`); n != 2 {
		t.Errorf("%d cards name a line", n)
	}
	if n := strings.Count(page, "<mark>"); n != strings.Count(page, `class="source`) {
		t.Errorf("%d marks", n)
	}
}
