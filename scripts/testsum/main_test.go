package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoReport(t *testing.T) {
	const report = `
{"Action":"run","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestX","Output":"why it failed\n"}
{"Action":"fail","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestY","Output":"chatter\n"}
{"Action":"pass","Package":"a","Test":"TestY"}
{"Action":"skip","Package":"a","Test":"TestZ"}
{"Action":"fail","Package":"a"}
{"Action":"build-output","ImportPath":"b","Output":"b.go:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"b"}
{"Action":"fail","Package":"b"}
{"Action":"skip","Package":"no-tests"}
{"Action":"output","Package":"d","Test":"TestX","Output":"panic: boom\n"}
{"Action":"fail","Package":"d"}
{"Action":"pass","Package":"c","Test":"TestX/sub"}
{"Action":"pass","Package":"c","Test":"TestX"}
{"Action":"pass","Package":"c"}
`
	var out strings.Builder
	c, err := readGo(strings.NewReader(report), &out)
	if want := (counts{Passed: 3, Failed: 3, Skipped: 1}); err != nil || c != want {
		t.Errorf("%+v, %v", c, err)
	}
	if s := out.String(); !strings.Contains(s, "why it failed") || !strings.Contains(s, "syntax error") || !strings.Contains(s, "panic: boom") || strings.Contains(s, "chatter") {
		t.Errorf("shown: %s", s)
	}
}

func TestClosingLineAndExit(t *testing.T) {
	dir := t.TempDir()
	if c, err := do([]string{"step", filepath.Join(dir, "good"), "true"}, nil, os.Stdout); err != nil || c.Failed != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _ := do([]string{"step", filepath.Join(dir, "bad"), "false"}, nil, os.Stdout); c.Failed != 1 {
		t.Errorf("%+v", c)
	}
	xml := filepath.Join(dir, "interop.xml")
	if err := os.WriteFile(xml, []byte(`<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := do([]string{"junit", filepath.Join(dir, "interop"), xml}, nil, os.Stdout); err != nil {
		t.Error(err)
	}
	if c, err := do([]string{"junit", filepath.Join(dir, "lost"), "nowhere.xml"}, nil, os.Stdout); err == nil || c.Failed != 1 {
		t.Errorf("a lost report is a failure: %+v, %v", c, err)
	}
	var out strings.Builder
	c, err := do([]string{"total", dir}, nil, &out)
	if err != nil || c.Failed != 5 || out.String() != "\n4 passed, 5 failed, 3 skipped\n" {
		t.Errorf("%+v %v %q", c, err, out.String())
	}
}
