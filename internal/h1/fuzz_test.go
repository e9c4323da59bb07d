package h1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The differential fuzzers hold h1 against net/http: whatever both accept they
// must read alike. That either rejects more is no fault.

func FuzzRequestAgainstNetHTTP(f *testing.F) {
	for _, s := range requestShapes {
		f.Add([]byte(s.in))
	}
	f.Add([]byte("GET http://h:80/t/a?x=1;y=%zz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"))
	f.Add([]byte(post + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\nGET /next HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var scan Scan
		var ours Request
		n, ok := scan.Find(in)
		if !ok || n == 0 || n > MaxHead || ParseRequest(in[:n], &ours) != nil {
			return
		}
		src := bytes.NewReader(in)
		br := bufio.NewReaderSize(src, 128)
		theirs, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if got, want := string(ours.Method.Of(in)), theirs.Method; got != want {
			t.Errorf("method %q, net/http %q", got, want)
		}
		if got, want := string(ours.Target.Of(in)), theirs.RequestURI; got != want {
			t.Errorf("target %q, net/http %q", got, want)
		}
		checkHost(t, in, &ours, theirs)
		body, end, ok := requestBody(in, n, &ours)
		theirBody, err := io.ReadAll(theirs.Body)
		if ok && err == nil {
			checkBody(t, body, theirBody, end, len(in)-src.Len()-br.Buffered())
		}
	})
}

// checkHost compares authority and path; net/http decodes the latter.
func checkHost(t *testing.T, in []byte, ours *Request, theirs *http.Request) {
	host := string(ours.Host.Of(in))
	if !ours.Authority.Empty() {
		host = string(ours.Authority.Of(in))
	}
	if !strings.EqualFold(host, theirs.Host) {
		t.Errorf("host %q, net/http %q", host, theirs.Host)
	}
	if path, err := url.PathUnescape(string(ours.Path.Of(in))); err != nil || path != theirs.URL.Path {
		t.Errorf("path %q, %v; net/http %q", path, err, theirs.URL.Path)
	}
}

// checkBody compares a body and where its message ends.
func checkBody(t *testing.T, ours, theirs []byte, ourEnd, theirEnd int) {
	t.Helper()
	if !bytes.Equal(ours, theirs) {
		t.Errorf("body %q, net/http %q", ours, theirs)
	}
	if ourEnd != theirEnd {
		t.Errorf("message ends at %d, net/http at %d", ourEnd, theirEnd)
	}
}

// requestBody is the body of a whole message and where the message ends.
func requestBody(in []byte, n int, r *Request) (body []byte, end int, ok bool) {
	switch r.Body {
	case Length:
		if int64(len(in)-n) < r.ContentLength {
			return nil, 0, false
		}
		end = n + int(r.ContentLength)
		return in[n:end], end, true
	case Chunked:
		body, m, ok := walk(in[n:])
		return body, n + m, ok
	}
	return nil, n, true
}

func FuzzResponseAgainstNetHTTP(f *testing.F) {
	for _, s := range responseShapes {
		f.Add([]byte(s.in), false)
		f.Add([]byte(s.in), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, head bool) {
		var scan Scan
		var ours Response
		n, ok := scan.Find(in)
		if !ok || n == 0 || n > MaxHead || !ParseResponse(in[:n], head, &ours) {
			return
		}
		in, n = passed(in, n, &ours)
		method := "GET"
		if head {
			method = "HEAD"
		}
		src := bytes.NewReader(in)
		br := bufio.NewReaderSize(src, 128)
		theirs, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return
		}
		if ours.Status != theirs.StatusCode {
			t.Errorf("status %d, net/http %d", ours.Status, theirs.StatusCode)
		}
		body, end, ok := responseBody(in, n, &ours)
		theirBody, err := io.ReadAll(theirs.Body)
		if ok && err == nil {
			checkBody(t, body, theirBody, end, len(in)-src.Len()-br.Buffered())
		}
	})
}

// passed is a response as a client gets it: without the white space before a
// colon, of which net/http makes a name of its own.
func passed(in []byte, n int, r *Response) ([]byte, int) {
	head := append([]byte(nil), in[:r.Line.End+2]...)
	head = append(AppendFields(head, in, r.Fields, 0, false), "\r\n"...)
	return append(head, in[n:]...), len(head)
}

func responseBody(in []byte, n int, r *Response) (body []byte, end int, ok bool) {
	switch r.Body {
	case UntilClose:
		return in[n:], len(in), true
	case NoBody:
		return nil, n, true
	case Length:
		return requestBody(in, n, &Request{Body: Length, ContentLength: r.ContentLength})
	}
	return requestBody(in, n, &Request{Body: Chunked})
}

// FuzzChunksSplit: however a chunked body is cut into pieces, the walk is the same.
func FuzzChunksSplit(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"), uint8(3))
	f.Add([]byte("1;a=b\r\nx\r\n00\r\nX: y\r\n\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		var whole, pieces Chunks
		n, ok := whole.Walk(in)
		m, okPieces := 0, true
		for arrived := 0; arrived < len(in) && okPieces && !pieces.Done(); {
			arrived = min(len(in), arrived+1+int(step))
			var k int
			k, okPieces = pieces.Walk(in[m:arrived])
			m += k
		}
		if ok && !whole.Done() && m < len(in) && strings.Trim(string(in[m:]), "0") == string(in[m:]) {
			t.Errorf("held back: %q", in[m:])
		}
		if n != m || ok != okPieces || whole.Done() != pieces.Done() {
			t.Errorf("whole %d %v %v, pieces %d %v %v", n, ok, whole.Done(), m, okPieces, pieces.Done())
		}
	})
}
