package importtest

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const legend = "docs/rules.md"

var (
	// ruleTag is a name of a rule: one of the five letters and a number. Other
	// letters are other families and no rules: T6 is a goal of docs/performance.md,
	// FC-60 a case of docs/field-cases.md, D1 and C1 are dialects of old clients.
	ruleTag   = regexp.MustCompile(`(?:^|[^A-Za-z0-9_%\\])([LRGFH][1-9][0-9]?)(?:[^A-Za-z0-9_]|$)`)
	testOfTag = regexp.MustCompile(`\b(?:Test|Fuzz)((?:[LRGFH][1-9][0-9]?)+)[A-Z]`)
	oneTag    = regexp.MustCompile(`[LRGFH][1-9][0-9]?`)

	entryHead = regexp.MustCompile(`(?m)^### ([LRGFH][1-9][0-9]?)\. .+$`)
	quoted    = regexp.MustCompile("`([A-Za-z0-9_-]+)`")
	anyTest   = regexp.MustCompile(`(?m)^(?:func ((?:Test|Fuzz)\w+)\(|(?:async )?def (test_\w+)\()`)
)

// TestRulesAreExplained holds the names of rules and the legend to each other:
// every tag used has an entry, every entry is used by the code, and what an
// entry says of it is shown by stories and tests that exist.
func TestRulesAreExplained(t *testing.T) {
	entries := legendEntries(t)
	usedByCode := map[string]bool{}
	for _, d := range documents(t) {
		if d.file == legend {
			continue
		}
		for _, tag := range tagsIn(d.file + "\n" + d.text) {
			if entries[tag] == "" {
				t.Errorf("%s names %s, which %s does not explain", d.file, tag, legend)
			}
			if ext := path.Ext(d.file); ext == ".lua" || ext == ".go" && path.Dir(d.file) != "internal/importtest" {
				usedByCode[tag] = true
			}
		}
	}
	shown := proofs(t)
	for tag, text := range entries {
		if !usedByCode[tag] {
			t.Errorf("%s explains %s, which no code names", legend, tag)
		}
		body, by, ok := strings.Cut(text, "\nShown by: ")
		names := quoted.FindAllStringSubmatch(by, -1)
		if !ok || len(names) == 0 {
			t.Errorf("%s: %s names no story and no test", legend, tag)
		}
		for _, n := range names {
			if !shown[n[1]] {
				t.Errorf("%s: %s is shown by %s, which is neither a story nor a test", legend, tag, n[1])
			}
		}
		if n := len(sentences(body)); n < 2 || n > 5 {
			t.Errorf("%s: %s takes %d sentences, want two to five", legend, tag, n)
		}
	}
}

// TestTagsAreFound: what counts as the name of a rule, and what does not.
func TestTagsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"(L2)": "L2", "R5-R7": "R5 R7", "H1: a, G4, H1.": "G4 H1", "internal/sim/testdata/R10-a-story.txt": "R10", "func TestR3R4Refusals(": "R3 R4", "L9's": "L9", "F1,F2": "F1 F2",
		"T6 C1 D4.1 FC-60 R0 L100": "", "%H1 \\F1 GF1 F1a HF_1": "", "TestFC47TheFrozenWorker": "", "TestF": "",
	} {
		if got := strings.Join(tagsIn(text), " "); got != want {
			t.Errorf("tagsIn(%q) = %q, want %q", text, got, want)
		}
	}
}

// tagsIn lists the rules that a text names, each once.
func tagsIn(text string) (tags []string) {
	for rest := text; ; {
		m := ruleTag.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		tags = append(tags, rest[m[2]:m[3]])
		rest = rest[m[3]:] // the byte behind a tag may stand before the next
	}
	for _, m := range testOfTag.FindAllStringSubmatch(text, -1) {
		tags = append(tags, oneTag.FindAllString(m[1], -1)...)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// legendEntries are the entries of the legend by tag.
func legendEntries(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, legend))
	if err != nil {
		t.Fatal(err)
	}
	text, entries := string(b), map[string]string{}
	for _, m := range entryHead.FindAllStringSubmatchIndex(text, -1) {
		tag, body := text[m[2]:m[3]], text[m[1]:]
		if i := strings.Index(body, "\n#"); i >= 0 {
			body = body[:i]
		}
		if entries[tag] != "" {
			t.Errorf("%s explains %s twice", legend, tag)
		}
		entries[tag] = body
	}
	if len(entries) < 30 {
		t.Fatalf("only %d entries found in %s", len(entries), legend)
	}
	return entries
}

// proofs are the names of all stories and tests.
func proofs(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, d := range documents(t) {
		if story, ok := strings.CutPrefix(d.file, "internal/sim/testdata/"); ok {
			names[strings.TrimSuffix(story, ".txt")] = true
		}
		for _, m := range anyTest.FindAllStringSubmatch(d.whole, -1) {
			names[m[1]+m[2]] = true
		}
	}
	return names
}

// A document is a file that says something in words.
type document struct {
	file  string // relative to the root of the repository
	whole string
	text  string // of Go its comments, strings and the names of its tests; else the whole
	prose string // what cites pages: of Go the comments alone
}

func documents(t *testing.T) []document {
	t.Helper()
	list, err := allDocuments()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 300 {
		t.Fatalf("only %d files found", len(list))
	}
	return list
}

// allDocuments are the sources, scripts, stories and pages of the repository.
var allDocuments = sync.OnceValues(func() (list []document, err error) {
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name := d.Name(); p != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "__pycache__", "bin"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		rel := strings.TrimPrefix(filepath.ToSlash(p), root+"/")
		if !worded(rel) {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		doc := document{rel, string(b), string(b), string(b)}
		if path.Ext(rel) == ".go" {
			doc.prose, doc.text = wordsOfGo(b)
		}
		list = append(list, doc)
		return nil
	})
	return list, err
})

// worded files say something to a reader: sources, scripts, pages, stories.
func worded(file string) bool {
	story := strings.HasPrefix(file, "internal/sim/testdata/") && strings.HasSuffix(file, ".txt")
	return story || path.Base(file) == "Makefile" || slices.Contains([]string{".go", ".lua", ".py", ".sh", ".md", ".yaml", ".yml"}, path.Ext(file))
}

// wordsOfGo are the comments of a source, and those with its strings and the
// names of its tests.
func wordsOfGo(src []byte) (comments, all string) {
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(src)), src, nil, scanner.ScanComments)
	var c, a strings.Builder
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return c.String(), a.String()
		case token.COMMENT:
			c.WriteString(lit + "\n")
			a.WriteString(lit + "\n")
		case token.STRING:
			a.WriteString(lit + "\n")
		case token.IDENT:
			if strings.HasPrefix(lit, "Test") || strings.HasPrefix(lit, "Fuzz") {
				a.WriteString(lit + "\n")
			}
		}
	}
}
