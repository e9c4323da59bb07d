package fieldtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// Every test and story that docs/field-cases.md names exists, every trial of
// this package is named there, and each case of the data plane has its own.
func TestEveryNamedTestExists(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "docs", "field-cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	sources := map[string]string{} // directory or file -> its tests
	read := func(where string) string {
		if text, ok := sources[where]; ok {
			return text
		}
		files := []string{filepath.Join(root, where)}
		if !strings.HasSuffix(where, ".py") {
			files, _ = filepath.Glob(filepath.Join(root, where, "*_test.go"))
		}
		var all strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Errorf("%s: %v", where, err)
			}
			all.Write(text)
		}
		sources[where] = all.String()
		return all.String()
	}
	named := regexp.MustCompile("`([a-z0-9_/]+(?:\\.py)?): ((?:Test|Fuzz|test_)\\w+)`").FindAllStringSubmatch(page, -1)
	if len(named) < 80 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, m := range named {
		if text := read(m[1]); !strings.Contains(text, "func "+m[2]+"(") && !strings.Contains(text, "def "+m[2]+"(") {
			t.Errorf("%s has no %s", m[1], m[2])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z/]+/testdata/[^`]+)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Error(err)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read("internal/fieldtest"), -1) {
		if m[1] != "TestMain" && !strings.Contains(page, "`internal/fieldtest: "+m[1]+"`") {
			t.Errorf("docs/field-cases.md does not name %s", m[1])
		}
	}
	for _, number := range strings.Fields("01 04 06 08 10 11 12 13 14 16 17 20 21 22 23 24 26 27 28 29 30 32 33 34 35 47 57 59 60 64 68") {
		if !regexp.MustCompile(`(?m)^\| FC-` + number + ` \|.*internal/fieldtest: TestFC` + number).MatchString(page) {
			t.Errorf("FC-%s has no trial of its own", number)
		}
	}
}
