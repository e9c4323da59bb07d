package fieldtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// cacheSuite is the public HTTP cache test suite, as npm has it.
const cacheSuite = "http-cache-tests@0.4.5"

// The suite's own server is a worker for its three namespaces, so that
// /test/<uuid>, /config/<uuid> and /state/<uuid> are instances. Run directly
// and through a node it must tell the same, apart from the differences in
// testdata/http-cache-tests.txt, each with its reason.
func TestHTTPCacheSuiteTellsTheSame(t *testing.T) {
	t.Parallel()
	suite := installCacheSuite(t)
	address := startCacheServer(t, suite)
	n := start(t)
	n.enrol(strings.Repeat("c", 32), "http://"+address, "/test", "/config", "/state")
	eventually(t, "ids for the suite", func() bool { return n.do(get("/state/warm-up")).Get("Pinboard-Error") == "" })

	direct := make(chan map[string]any, 1)
	go func() { direct <- runCacheSuite(t, suite, "http://"+address) }()
	through := runCacheSuite(t, suite, n.url)
	want := <-direct
	if t.Failed() {
		return
	}
	if len(want) < 300 || len(through) != len(want) {
		t.Fatalf("%d results directly, %d through Pinboard", len(want), len(through))
	}
	reasons := listedDifferences(t)
	for id, result := range want {
		a, b := text(result), text(through[id])
		switch reason := reasons[id]; {
		case a != b && reason == "":
			t.Errorf("%s: directly %s, through Pinboard %s", id, a, b)
		case a == b && reason != "":
			t.Errorf("%s is listed as a difference and is none", id)
		}
		delete(reasons, id)
	}
	for id := range reasons {
		t.Errorf("%s is listed and unknown to the suite", id)
	}
}

// text is a result without what every run has of its own.
func text(result any) string {
	b, _ := json.Marshal(result)
	return regexp.MustCompile(`127\.0\.0\.1:\d+|[0-9a-f]{8}-[0-9a-f-]{27}`).ReplaceAllString(string(b), "_")
}

func listedDifferences(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("testdata/http-cache-tests.txt")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	reason := ""
	for l := range strings.Lines(string(b)) {
		switch l = strings.TrimSpace(l); {
		case l == "":
			reason = ""
		case strings.HasPrefix(l, "#"):
			reason += strings.TrimPrefix(l, "#")
		case reason == "":
			t.Fatalf("%s is listed without a reason", l)
		default:
			list[l] = reason
		}
	}
	return list
}

// installCacheSuite makes sure that the suite is under .cache and returns its
// directory.
func installCacheSuite(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the HTTP cache suite needs %s", tool)
		}
	}
	root, err := filepath.Abs("../../.cache/http-cache-tests")
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(root, "node_modules", "http-cache-tests")
	if _, err := os.Stat(filepath.Join(root, "complete")); err == nil {
		return suite
	} else if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("npm", "install", "--prefix", root, "--no-audit", "--no-fund", "--ignore-scripts", cacheSuite).CombinedOutput()
	if err != nil {
		t.Fatalf("npm install %s: %v\n%s", cacheSuite, err, out)
	}
	if err := os.WriteFile(filepath.Join(root, "complete"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return suite
}

// startCacheServer runs the suite's origin server on a free port.
func startCacheServer(t *testing.T, suite string) (address string) {
	t.Helper()
	cmd := exec.Command("node", "server/server.mjs")
	cmd.Dir = suite
	cmd.Env = append(os.Environ(), "npm_config_protocol=http", "npm_config_port=0", "npm_config_pidfile="+filepath.Join(t.TempDir(), "pid"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	found := make(chan string, 1)
	go func() {
		listening := regexp.MustCompile(`Listening on http://.*:(\d+)/`)
		for s := bufio.NewScanner(out); s.Scan(); {
			if m := listening.FindStringSubmatch(s.Text()); m != nil {
				found <- "127.0.0.1:" + m[1]
			}
		}
	}()
	select {
	case address = <-found:
	case <-time.After(patience):
		t.Fatal("the suite's server does not listen")
	}
	return address
}

func runCacheSuite(t *testing.T, suite, base string) map[string]any {
	cmd := exec.Command("node", "--no-warnings", "cli.mjs")
	cmd.Dir = suite
	cmd.Env = append(os.Environ(), "npm_config_base="+base, "npm_package_config_id=")
	out, err := cmd.Output()
	var results map[string]any
	if err == nil {
		err = json.Unmarshal(out, &results)
	}
	if err != nil {
		t.Errorf("the suite on %s: %v\n%.2000s", base, err, out)
	}
	return results
}
