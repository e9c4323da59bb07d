package importtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// longSentence: nine of ten sentences of a page have fewer words. One thought
// each; whoever reads them may have English as a third language.
const longSentence = 28

var plainPages = []string{"docs/design.md", "docs/guarantees.md", "docs/rules.md", "docs/security.md"}

// TestSentencesAreShort: pages that explain how ownership works use short
// sentences. Tables, drawings and lists of tests are no sentences.
func TestSentencesAreShort(t *testing.T) {
	for _, page := range plainPages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		list := sentences(string(text))
		if len(list) < 20 {
			t.Fatalf("%s: only %d sentences found", page, len(list))
		}
		slices.SortFunc(list, func(a, b string) int { return words(a) - words(b) })
		middle, p90 := words(list[len(list)/2]), words(list[len(list)*9/10])
		t.Logf("%s: %d sentences, median %d words, p90 %d, longest %d", page, len(list), middle, p90, words(list[len(list)-1]))
		if p90 >= longSentence {
			t.Errorf("%s: one sentence in ten has %d words or more, want fewer than %d; the longest: %s", page, p90, longSentence, list[len(list)-1])
		}
	}
}

// TestSentencesAreCounted: the measure itself, on a page that has everything.
func TestSentencesAreCounted(t *testing.T) {
	got := sentences("# Head line\nOne two, three. Four `a.b c` five!\n\n| a. | b. |\n```\nno. no.\n```\n- Six **seven.**\n- no;\n- Eight\n  nine.\n**No.** Nine.\nShown by: story `x`, `TestY`.\nTen `TestA` `TestB`.\n1. Eleven v1.2 twelve.\n")
	want := []string{"One two, three.", "Four `a.b c` five!", "Six **seven.**", "Eight nine.", "Nine.", "Ten .", "Eleven v1.2 twelve."}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n := words("Four `a.b c` five - !"); n != 4 {
		t.Errorf("%d words, want 4", n)
	}
}

var (
	listItem    = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s+`)
	testNames   = regexp.MustCompile("`(?:Test|Fuzz|test_)[A-Za-z0-9_]+`")
	sentenceEnd = regexp.MustCompile("([.!?][)\"*`]*)\\s+")
	whole       = regexp.MustCompile("[A-Za-z0-9].*[.!?:][)\"*`]*$")
	boldLead    = regexp.MustCompile(`^\*\*[^*]+\*\*$`)
	hasLetter   = regexp.MustCompile(`[A-Za-z0-9]`)
)

// sentences are those of a page's prose: no headings, bold leads, tables,
// drawings, lists of what shows a rule, or items that a semicolon ends.
func sentences(page string) (out []string) {
	var paragraph strings.Builder
	flush := func() {
		text := sentenceEnd.ReplaceAllString(strings.Join(strings.Fields(paragraph.String()), " ")+" ", "$1\n")
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); whole.MatchString(line) && !boldLead.MatchString(line) {
				out = append(out, line)
			}
		}
		paragraph.Reset()
	}
	drawing := false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "```"):
			drawing = !drawing
			flush()
		case drawing:
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "|"), strings.HasPrefix(line, "<!--"), strings.HasPrefix(line, "Shown by:"), strings.TrimSpace(line) == "":
			flush()
		default:
			if listItem.MatchString(line) {
				flush()
				line = listItem.ReplaceAllString(line, "")
			}
			paragraph.WriteString(testNames.ReplaceAllString(line, "") + " ")
		}
	}
	flush()
	return out
}

func words(sentence string) (n int) {
	for _, w := range strings.Fields(sentence) {
		if hasLetter.MatchString(w) {
			n++
		}
	}
	return n
}
