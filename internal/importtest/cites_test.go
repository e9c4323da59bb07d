package importtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// page is a document named in a comment or on another page, with the section
	// it is cited for, if any: docs/guarantees.md, "The words".
	pageNamed = regexp.MustCompile("([\\w./:-]*[\\w-]\\.md)\\b[`)]*(?:,\\s+\"([^\"\\n]+)\")?(,? sections? \\d)?")
	marks     = regexp.MustCompile(`\n[ \t]*(?://|#|--)[ \t]*`) // of a comment that goes on
)

// TestCitedPagesExist: a comment or page cites only documents of this
// repository, by their path from its root or from the citing file, and a section
// by a heading (or bold lead) that is there. Numbers of sections shift, so none
// is cited.
func TestCitedPagesExist(t *testing.T) {
	n := 0
	for _, d := range documents(t) {
		if !strings.Contains(d.prose, ".md") {
			continue
		}
		for _, m := range pageNamed.FindAllStringSubmatch(marks.ReplaceAllString(d.prose, " "), -1) {
			name, section := m[1], m[2]
			if strings.Contains(name, "://") {
				continue
			}
			n++
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				text, err = os.ReadFile(filepath.Join(root, path.Dir(d.file), name))
			}
			switch {
			case err != nil:
				t.Errorf("%s cites %s, which is not in the repository", d.file, name)
			case m[3] != "":
				t.Errorf("%s cites%s of %s by number, want its heading", d.file, m[3], name)
			case section != "" && !hasSection(string(text), section):
				t.Errorf("%s cites %s, %q, which has no such heading", d.file, name, section)
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d citations found", n)
	}
}

// hasSection reports a heading, without its number, or a bold lead.
func hasSection(page, section string) bool {
	q := regexp.QuoteMeta(section)
	return regexp.MustCompile(`(?m)^(#+ (\d+\. |[LRGFH]\d+\. )?` + q + `$|(- )?\*\*` + q + `[.*])`).MatchString(page)
}

// TestSectionsAreFound: what counts as a section.
func TestSectionsAreFound(t *testing.T) {
	page := "# One\n## 2. Two words\ntext **no**\n**Bold lead.** Text\n### L1. A rule\n"
	for section, want := range map[string]bool{"One": true, "Two words": true, "Two": false, "Bold lead": true, "A rule": true, "no": false, "text": false} {
		if hasSection(page, section) != want {
			t.Errorf("%q found: %v", section, !want)
		}
	}
	got := pageNamed.FindStringSubmatch(marks.ReplaceAllString("// (docs/protocol.md,\n\t// \"Refusals\")", " "))
	if got == nil || got[1] != "docs/protocol.md" || got[2] != "Refusals" {
		t.Errorf("found %q", got)
	}
}
