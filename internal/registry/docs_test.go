package registry

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pinboard"
	"pinboard/api"
)

var update = flag.Bool("update", false, "rewrite the table of refusals in docs/protocol.md")

const document = "../../docs/protocol.md"

func read(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// reasoned are the refusals whose "error" says more than their text.
var reasoned = []*pinboard.Refusal{pinboard.Forbidden, pinboard.InvalidField, pinboard.NotFound, pinboard.Conflict, pinboard.Reregister, pinboard.NotReady}

func refusals() string {
	var b strings.Builder
	b.WriteString("\n| Code | Status | Text | |\n|---|---|---|---|\n")
	for _, r := range pinboard.Refusals {
		var notes []string
		if r.Retry {
			notes = append(notes, "`Retry-After`")
		}
		if slices.Contains(reasoned, r) {
			notes = append(notes, "*reason*")
		}
		if r.Bare {
			notes = append(notes, "*bare*")
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", r.Code, r.Status, r.Text, strings.Join(notes, ", "))
	}
	return b.String()
}

// docs/protocol.md lists every refusal as it is.
func TestRefusalsAreDocumented(t *testing.T) {
	text := read(t)
	head, rest, ok := strings.Cut(text, "-update -->\n")
	_, tail, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		t.Fatal("docs/protocol.md lost its markers")
	}
	want := head + "-update -->\n" + strings.TrimPrefix(refusals(), "\n") + "<!-- end -->" + tail
	if text == want {
		return
	}
	if !*update {
		t.Fatal("docs/protocol.md is not what the code says: go test ./internal/registry -update")
	}
	if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every endpoint is in the table with its scope, and none that is not served.
func TestEndpointsAreDocumented(t *testing.T) {
	text, n := read(t), start(t, nil)
	for path, r := range n.server.routes {
		if row := fmt.Sprintf("| %s `%s` | `%s` |", r.method, path, r.scope); !strings.Contains(text, row) {
			t.Errorf("missing: %s", row)
		}
	}
	if rows := strings.Count(text, " `/registry/") - strings.Count(text, " `/registry//"); rows < len(n.server.routes) {
		t.Errorf("%d rows for %d endpoints", rows, len(n.server.routes))
	}
	for line := range strings.Lines(text) {
		var method, path string
		if k, _ := fmt.Sscanf(line, "| %s `%s", &method, &path); k == 2 && strings.HasPrefix(path, "/registry/") {
			if _, ok := n.server.routes[strings.TrimSuffix(path, "`")]; !ok {
				t.Errorf("documented, not served: %s", line)
			}
		}
	}
}

// Every member of every body is named in the document.
func TestFieldsAreDocumented(t *testing.T) {
	text := read(t)
	for _, body := range []any{api.Register{}, api.Heartbeat{}, api.Release{}, api.Deregister{}, api.Tag{}, api.Mark{}, api.WindDown{}, api.Select{}, api.Push{}, api.Binding{},
		api.RegisterAnswer{}, api.HeartbeatAnswer{}, api.Message{}, api.Instance{}, api.PushAnswer{}, api.ReleaseAnswer{}, api.TagAnswer{}, api.EjectAnswer{}, api.BindingAnswer{}, api.Done{}, api.Error{}} {
		for f := range fields(reflect.TypeOf(body)) {
			if !regexp.MustCompile(`\b` + f + `\b`).MatchString(text) {
				t.Errorf("%T: %s is not in docs/protocol.md", body, f)
			}
		}
	}
}

func fields(t reflect.Type) map[string]bool {
	out := map[string]bool{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = true
		}
	}
	return out
}

// docs/security.md names tests as proof; each of them exists.
func TestProofsOfSecurityExist(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, root := range []string{"../../internal", "../../api", "../../cmd", "../../interop"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".py") {
				return nil
			}
			b, err := os.ReadFile(path)
			tests.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|test_)[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 30 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, name := range named {
		if !strings.Contains(tests.String(), name[1]+"(") {
			t.Errorf("%s does not exist", name[1])
		}
	}
}
