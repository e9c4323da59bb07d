package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected output of the stories")

// TestStories plays testdata/*.txt: each command is followed by "----" and by
// what it tells. Rewrite with -update and review the difference.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			t.Parallel()
			play(t, name)
		})
	}
}

func play(t *testing.T, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s := &Story{}
	var got strings.Builder
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == "" || strings.HasPrefix(line, "#") {
			got.WriteString(line + "\n")
			continue
		}
		if i+1 < len(lines) && lines[i+1] == "----" {
			for i++; i < len(lines) && lines[i] != ""; i++ {
			}
		}
		fmt.Fprintf(&got, "%s\n----\n%s\n", line, s.Do(line))
	}
	s.w.Close()
	out := got.String()
	for strings.Contains(out, "\n\n\n") {
		out = strings.ReplaceAll(out, "\n\n\n", "\n\n")
	}
	out = strings.TrimRight(out, "\n") + "\n"
	if *update {
		if err := os.WriteFile(name, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := string(text); out != want {
		t.Errorf("%s tells another story:\n%s", name, difference(want, out))
	}
}

// difference shows the first lines that differ, with some context.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	show := func(l []string) string { return strings.Join(l[max(0, i-6):min(len(l), i+4)], "\n  ") }
	return fmt.Sprintf("line %d, want\n  %s\ngot\n  %s", i+1, show(w), show(g))
}
