package fieldtest

import (
	"fmt"
	"strings"
	"testing"

	"pinboard/internal/rawtest"
)

// passes sends a request and wants it at the worker with the same target.
func (n *node) passes(w *worker, request string) {
	n.t.Helper()
	before := len(w.got())
	m := n.do(request)
	if m.Status() != 200 {
		n.t.Errorf("%.200q: %.300q", request, m.Raw)
		return
	}
	if got := w.got(); len(got) != before+1 || received(got[before]) != request {
		n.t.Errorf("%.200q arrived as %.300q", request, received(w.last()))
	}
}

// stops sends a request and wants an answer of ours, nothing at the worker.
func (n *node) stops(w *worker, request string, status int, code string) {
	n.t.Helper()
	before := len(w.got())
	c := n.dial()
	defer c.Close()
	c.Write(request)
	m := c.Response(strings.Fields(request)[0])
	if !ours(m, status, code) {
		n.t.Errorf("%.200q: %.300q, want %d %s", request, m.Raw, status, code)
	}
	if len(w.got()) != before {
		n.t.Errorf("%.200q reached the worker as %.200q", request, w.last().Head)
	}
}

// FC-27: the path passes byte for byte.
func TestFC27PathBytesPass(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	for _, rest := range []string{
		"b%2Fc", "b%2fc", "%41", "%7e", "a%20b+c", "{x}", "a|b", "a^b", `"q"`, `\x`, "[x]", ";p=1", "é", "%zz", "%", "`", "<>",
		"a=b&c", "a:b@c", "%00", "%c3%A9", "\xff\xfe", "*", "", "/", strings.Repeat("x", 8<<10),
	} {
		n.passes(w, get("/t/a/"+rest))
		n.passes(w, post("/t/a/"+rest, "hi"))
	}
	n.passes(w, get("/t/a"))
	n.passes(w, get("/t/Az09._~-"))
	n.stops(w, get("/t/a%41/x"), 400, "invalid_id")
	n.stops(w, get("/t/é"), 400, "invalid_id")
	n.stops(w, get("/t/a;p=1/x"), 400, "invalid_id")
	n.stops(w, get("/t/a b"), 400, "bad_request")
	n.stops(w, get("/t/a\x7f"), 400, "bad_request")
}

// FC-28: slashes and dots pass as they came unless they climb out of the
// instance; nobody is redirected. "." and ".." are no ids: every client and
// worker in between may resolve them.
func TestFC28SlashesAndDots(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	for _, method := range []string{"GET", "POST"} {
		for _, path := range []string{"/t/a//x", "/t/a/./x", "/t/a/..;/b", "/t/a/b/../c", "/t/a//", "/t/a/.", "/t/a/...", "/t/a/b/%2e%2e", "/t/a/b/..%2f"} {
			n.passes(w, ask(method, path))
		}
		for path, code := range map[string]string{
			"/t/a/../b/x": "path_leaves_instance", "/t/a/..": "path_leaves_instance", "/t/a/%2e%2e/b": "path_leaves_instance",
			"/t/a/%2E./b": "path_leaves_instance", "/t/a/b/../../c": "path_leaves_instance", `/t/a/..\b`: "path_leaves_instance",
			"/t/a/..%2fb": "path_leaves_instance", "/t/a/..%5cb": "path_leaves_instance", "/t/a//../x": "path_leaves_instance",
			"/t/..": "invalid_id", "/t/.": "invalid_id", "/t/../healthz": "invalid_id", "/t/%2e%2e/x": "invalid_id",
			"/t/": "invalid_id", "/t": "invalid_id", "/t//a": "invalid_id",
		} {
			n.stops(w, ask(method, path), 400, code)
		}
		n.stops(w, ask(method, "//t/a/x"), 404, "unknown_namespace")
		n.stops(w, ask(method, "/"), 404, "unknown_namespace")
		n.stops(w, ask(method, "/../t/a"), 404, "unknown_namespace")
	}
}

// FC-29: the control plane has one spelling; whatever looks like it is
// neither answered as it nor passed on.
func TestFC29NoSideDoorToTheControlPlane(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(rawtest.Always(rawtest.Response(200, "from the worker")))
	before := len(w.got())
	for _, path := range []string{
		"//registry/workers", "/registry//workers", "/%72egistry/workers", "/Registry/workers", "/REGISTRY/workers", "/registry", "/registry/",
		"/registry/../t/a", "/registry/;/workers", "/registry;/workers", "/registry%2fworkers", "/registry/workers/", "/registry/workers?x",
		"/t/../registry/workers", "/t/a/../../registry/workers", "/healthz/x", "/healthz/", "/metrics/", "/metrics/x", "/%6detrics", "/metrics;", "/dashboard",
		"/_pinned/evict", "/_pinned/challenge", "/readyz/x", "/./registry/workers", `/registry\workers`,
	} {
		for _, target := range []string{path, "http://h" + path, "http://evil:1" + path} {
			for _, method := range []string{"GET", "POST", "HEAD"} {
				m := n.do(ask(method, target, "Connection: close"))
				if s := m.Status(); s != 400 && s != 401 && s != 404 {
					t.Errorf("%s %s: %.200q", method, target, m.Raw)
				}
				if strings.Contains(string(m.Body), "sessionId") || strings.Contains(string(m.Body), "pinboard_requests_total") {
					t.Errorf("%s %s tells: %.200q", method, target, m.Body)
				}
			}
		}
	}
	if got := w.got(); len(got) != before {
		t.Errorf("a control path reached the worker: %.200q", got[before].Head)
	}
	for path, status := range map[string]int{"/healthz": 200, "/healthz?x": 200, "/readyz?x": 200, "/metrics?x": 200} {
		if m := n.do(ask("GET", path, "Connection: close")); m.Status() != status {
			t.Errorf("%s: %.100q", path, m.Raw)
		}
	}
	for i, ns := range []string{"/registry", "/Registry", "/metrics", "/healthz", "/readyz", "/_pinned", "/dashboard", "/registry/x", "registry", "", "/", "a/b", "/..", "..", "/t/..", "/a b", "/a%2fb", "/a//b", "/a/"} {
		status, answer := n.post("/registry/register", map[string]any{
			"clientId": fmt.Sprintf("%032x", i+1000), "secret": fmt.Sprintf("%064x", i+1000), "namespaces": []string{ns},
			"advertiseUrl": w.URL(), "headroom": 1, "draining": false,
		})
		if status != 400 {
			t.Errorf("namespace %q: %d %v", ns, status, answer)
		}
	}
}

// FC-30: the query passes byte for byte.
func TestFC30QueriesPass(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	many := "?" + strings.TrimSuffix(strings.Repeat("a=1&", 10001), "&")
	for _, query := range []string{
		"?", "?x=1;y=2", "?x=%zz&y=1", "?a+b=c+d", "?b=2&a=1&a=", "?%41=%2f", "??", "?x=é", "?x=/../..", "?x={}|^`\"<>\\", "?&&=&", "?x=%", many,
	} {
		for _, path := range []string{"/t/a", "/t/a/", "/t/a/b"} {
			n.passes(w, get(path+query))
		}
	}
	for _, target := range []string{"/t/a?x=1#f", "/t/a#f", "/t/a?#"} {
		n.stops(w, get(target), 400, "bad_request")
	}
}

// FC-32: methods that are no gateway's business, and those that are.
func TestFC32MethodsOfAGateway(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	n.stops(w, ask("CONNECT", "/t/a"), 405, "method_not_allowed")
	n.stops(w, ask("CONNECT", "h:80"), 405, "method_not_allowed")
	n.stops(w, ask("TRACE", "/t/a"), 405, "method_not_allowed")
	n.stops(w, ask("TRACE", "/t/a", "Max-Forwards: 0"), 405, "method_not_allowed")
	n.stops(w, ask("OPTIONS", "*"), 400, "bad_request")
	n.stops(w, ask("GET", "*"), 400, "bad_request")
	n.stops(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad_request")
	n.stops(w, strings.Replace(get("/t/a"), "HTTP/1.1", "HTTP/2.0", 1), 400, "bad_request")
	n.stops(w, strings.Replace(get("/t/a"), "HTTP/1.1", "HTTP/1.2", 1), 505, "version_not_supported")
	n.stops(w, strings.Replace(get("/t/a"), "HTTP/1.1", "HTTP/0.9", 1), 505, "version_not_supported")
	n.stops(w, "GET /t/a\r\n\r\n", 400, "bad_request")
	n.stops(w, strings.Replace(get("/t/a"), "GET", strings.Repeat("M", 20<<10), 1), 400, "bad_request")
	n.stops(w, strings.Replace(get("/t/a"), "GET", "G(T", 1), 400, "bad_request")
	for _, method := range []string{"get", "PROPFIND", "M-SEARCH", "X!#$%&'*+-.^_`|~9", "PATCH"} {
		n.passes(w, ask(method, "/t/a"))
	}

	before := len(w.got())
	m := n.do(ask("OPTIONS", "/t/a", "Max-Forwards: 0"))
	if m.Status() != 204 || len(w.got()) != before {
		t.Errorf("Max-Forwards 0: %q", m.Raw)
	}
	for value, want := range map[string]string{"1": "0", "3": "2", "007": "6"} {
		n.do(ask("OPTIONS", "/t/a", "Max-Forwards: "+value))
		if got := w.last().Values("Max-Forwards"); len(got) != 1 || got[0] != want {
			t.Errorf("Max-Forwards %s arrived as %q", value, got)
		}
	}
	n.do(ask("GET", "/t/a", "Max-Forwards: 0")) // only OPTIONS and TRACE obey it
	if got := w.last().Get("Max-Forwards"); got != "0" {
		t.Errorf("Max-Forwards of a GET arrived as %q", got)
	}
}
