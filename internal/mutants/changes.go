package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// A place is a line of a file.
type place struct {
	file string
	line int
}

var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// changes lists the lines that were added or changed since a commit, what is
// not committed yet included; nil without a commit.
func changes(since string) (map[place]bool, error) {
	if since == "" {
		return nil, nil
	}
	if since == "auto" {
		since = base()
		fmt.Println("changed since", since)
	}
	out, err := exec.Command("git", "diff", "-U0", "--no-color", since, "--").Output()
	if err != nil {
		return nil, fmt.Errorf("git diff %s: %w", since, err)
	}
	return touched(string(out)), nil
}

// touched reads a diff without context.
func touched(diff string) map[place]bool {
	lines, file := map[place]bool{}, ""
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = name
		}
		m := hunk.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		from, _ := strconv.Atoi(m[1])
		n := 1
		if m[2] != "" {
			n, _ = strconv.Atoi(m[2])
		}
		for i := range n {
			lines[place{file, from + i}] = true
		}
	}
	return lines
}

// base is where this branch left main; on main itself, the commit before.
func base() string {
	out, err := exec.Command("git", "merge-base", "HEAD", "main").Output()
	head, _ := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil || string(out) == string(head) {
		if exec.Command("git", "rev-parse", "--verify", "--quiet", "HEAD~1").Run() != nil {
			return "HEAD" // a history of one commit: what is not committed yet
		}
		return "HEAD~1"
	}
	return strings.TrimSpace(string(out))
}
