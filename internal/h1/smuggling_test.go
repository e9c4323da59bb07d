package h1

import "testing"

// The smuggling corpus: shapes by which two readers of one message have been
// made to disagree about where it ends or whose it is. Each is rejected or has
// the one framing that is stated; the same bytes seed the differential fuzzers.

type shape struct {
	name, in string
	body     Framing // of an accepted one
	reject   bool
}

const post = "POST /t/a HTTP/1.1\r\nHost: h\r\n"

var requestShapes = []shape{
	{name: "CL and TE", in: post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE and CL", in: post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", reject: true},
	{name: "two CL", in: post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", reject: true},
	{name: "two equal CL", in: post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", reject: true},
	{name: "CL list", in: post + "Content-Length: 5, 5\r\n\r\nhello", reject: true},
	{name: "CL plus", in: post + "Content-Length: +5\r\n\r\nhello", reject: true},
	{name: "CL minus", in: post + "Content-Length: -5\r\n\r\nhello", reject: true},
	{name: "CL hex", in: post + "Content-Length: 0x5\r\n\r\nhello", reject: true},
	{name: "CL float", in: post + "Content-Length: 5.0\r\n\r\nhello", reject: true},
	{name: "CL underscore", in: post + "Content-Length: 1_0\r\n\r\nhello", reject: true},
	{name: "CL empty", in: post + "Content-Length: \r\n\r\nhello", reject: true},
	{name: "CL overflow", in: post + "Content-Length: 18446744073709551621\r\n\r\nhello", reject: true},
	{name: "CL zero padded", in: post + "Content-Length: 0005\r\n\r\nhello", body: Length},
	{name: "CL inner space", in: post + "Content-Length: 5 5\r\n\r\nhello", reject: true},
	{name: "CL vertical tab", in: post + "Content-Length: \v5\r\n\r\nhello", reject: true},
	{name: "CL non-breaking space", in: post + "Content-Length: \xa05\r\n\r\nhello", reject: true},
	{name: "CL Arabic digits", in: post + "Content-Length: ٥\r\n\r\nhello", reject: true},
	{name: "CL space before colon", in: post + "Content-Length : 5\r\n\r\nhello", reject: true},
	{name: "CL tab before colon", in: post + "Content-Length\t: 5\r\n\r\nhello", reject: true},
	{name: "CL folded", in: post + "Content-Length:\r\n 5\r\n\r\nhello", reject: true},
	{name: "CL of other name", in: post + "Content_Length: 5\r\n\r\n", body: NoBody},
	{name: "CL listed in Connection", in: post + "Connection: Content-Length\r\nContent-Length: 5\r\n\r\nhello", body: Length},
	{name: "TE listed in Connection", in: post + "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", body: Chunked},
	{name: "TE twice", in: post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE twice, other", in: post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE chunked, chunked", in: post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE gzip, chunked", in: post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE chunked, gzip", in: post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE identity", in: post + "Transfer-Encoding: identity\r\n\r\n", reject: true},
	{name: "TE chunked, identity", in: post + "Transfer-Encoding: chunked, identity\r\n\r\n", reject: true},
	{name: "TE empty", in: post + "Transfer-Encoding: \r\n\r\n", reject: true},
	{name: "TE chunked comma", in: post + "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE comma chunked", in: post + "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE xchunked", in: post + "Transfer-Encoding: xchunked\r\n\r\n", reject: true},
	{name: "TE quoted", in: post + "Transfer-Encoding: \"chunked\"\r\n\r\n", reject: true},
	{name: "TE parameter", in: post + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE vertical tab", in: post + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE NUL", in: post + "Transfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE space before colon", in: post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE folded", in: post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE folded tail", in: post + "Transfer-Encoding: chunked\r\n x\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE in one before", in: post + "X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE upper case", in: post + "TRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n", body: Chunked},
	{name: "TE padded", in: post + "Transfer-Encoding: \t chunked \t\r\n\r\n0\r\n\r\n", body: Chunked},
	{name: "TE of other name", in: post + "Transfer_Encoding: chunked\r\n\r\n", body: NoBody},
	{name: "TE in HTTP/1.0", in: "POST /t/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE bare LF", in: post + "Transfer-Encoding: chunked\n\r\n0\r\n\r\n", reject: true},
	{name: "TE bare CR", in: post + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "chunk size hex prefix", in: post + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk size minus", in: post + "Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk size plus", in: post + "Transfer-Encoding: chunked\r\n\r\n+2\r\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk size empty", in: post + "Transfer-Encoding: chunked\r\n\r\n\r\n\r\n", reject: true},
	{name: "chunk size overflow", in: post + "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk size space", in: post + "Transfer-Encoding: chunked\r\n\r\n2 \r\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk size leading space", in: post + "Transfer-Encoding: chunked\r\n\r\n 2\r\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk size underscore", in: post + "Transfer-Encoding: chunked\r\n\r\n0_2\r\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk line LF", in: post + "Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk line CR", in: post + "Transfer-Encoding: chunked\r\n\r\n2\rXhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk extension LF", in: post + "Transfer-Encoding: chunked\r\n\r\n2;a\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk extension NUL", in: post + "Transfer-Encoding: chunked\r\n\r\n2;\x00\r\nhi\r\n0\r\n\r\n", reject: true},
	{name: "chunk data LF", in: post + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\n0\r\n\r\n", reject: true},
	{name: "chunk data too long", in: post + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n", reject: true},
	{name: "chunk data missing end", in: post + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi0\r\n\r\n", reject: true},
	{name: "last chunk LF", in: post + "Transfer-Encoding: chunked\r\n\r\n0\n\n", reject: true},
	{name: "trailer LF", in: post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n", reject: true},
	{name: "trailer folded", in: post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n z\r\n\r\n", reject: true},
	{name: "trailer without colon", in: post + "Transfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.1\r\n\r\n", reject: true},
	{name: "zero chunks", in: post + "Transfer-Encoding: chunked\r\n\r\n000\r\n\r\n", body: Chunked},
	{name: "chunk extension", in: post + "Transfer-Encoding: chunked\r\n\r\n2 ; a=\"b\"\r\nhi\r\n0\r\n\r\n", body: Chunked},
	{name: "GET with body", in: "GET /t/a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", body: Length},
	{name: "absolute target against Host", in: "GET http://evil/t/a HTTP/1.1\r\nHost: h\r\n\r\n", body: NoBody},
	{name: "escape in an absolute target's authority", in: "GET http://a%2eb/t/a HTTP/1.1\r\nHost: h\r\n\r\n", reject: true},
	{name: "invalid text in an absolute target's authority", in: "GET http://%80 HTTP/1.0\r\n\r\n", reject: true},
	{name: "space in name", in: post + "X Y: z\r\n\r\n", reject: true},
	{name: "leading blank", in: "\r\n" + post + "\r\n", reject: true}, // the connection skips one before it parses
}

const ok200 = "HTTP/1.1 200 OK\r\n"

var responseShapes = []shape{
	{name: "CL and TE", in: ok200 + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "two CL", in: ok200 + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", reject: true},
	{name: "two equal CL", in: ok200 + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", reject: true},
	{name: "CL list", in: ok200 + "Content-Length: 5,5\r\n\r\nhello", reject: true},
	{name: "CL plus", in: ok200 + "Content-Length: +5\r\n\r\nhello", reject: true},
	{name: "CL minus", in: ok200 + "Content-Length: -1\r\n\r\nhello", reject: true},
	{name: "CL overflow", in: ok200 + "Content-Length: 99999999999999999999\r\n\r\nhello", reject: true},
	{name: "CL space before colon", in: ok200 + "Content-Length : 5\r\n\r\nhello", body: Length},
	{name: "CL twice, a space before one colon", in: ok200 + "Content-Length : 5\r\nContent-Length: 6\r\n\r\nhello", reject: true},
	{name: "TE space before colon", in: ok200 + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", body: Chunked},
	{name: "TE gzip, chunked", in: ok200 + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE identity", in: ok200 + "Transfer-Encoding: identity\r\n\r\n", reject: true},
	{name: "TE twice", in: ok200 + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE in HTTP/1.0", in: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reject: true},
	{name: "TE of 204", in: "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", body: NoBody},
	{name: "CL of 204", in: "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nhi", body: NoBody},
	{name: "CL of 304", in: "HTTP/1.1 304 Not\r\nContent-Length: 2\r\n\r\n", body: NoBody},
	{name: "CL of 103", in: "HTTP/1.1 103 Hints\r\nContent-Length: 2\r\n\r\n", body: NoBody},
	{name: "obs-fold", in: ok200 + "X: y\r\n z\r\n\r\n", reject: true},
	{name: "bare LF", in: "HTTP/1.1 200 OK\nContent-Length: 0\n\n", reject: true},
	{name: "bare CR in reason", in: "HTTP/1.1 200 O\rK\r\n\r\n", reject: true},
	{name: "NUL in reason", in: "HTTP/1.1 200 O\x00K\r\n\r\n", reject: true},
	{name: "two digits", in: "HTTP/1.1 20 OK\r\n\r\n", reject: true},
	{name: "four digits", in: "HTTP/1.1 2000 OK\r\n\r\n", reject: true},
	{name: "status 000", in: "HTTP/1.1 000 OK\r\n\r\n", reject: true},
	{name: "HTTP/2", in: "HTTP/2 200 OK\r\n\r\n", reject: true},
	{name: "HTTP/1.2", in: "HTTP/1.2 200 OK\r\n\r\n", reject: true},
	{name: "no reason", in: "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", body: Length},
	{name: "empty reason", in: "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello", body: Length},
	{name: "neither", in: ok200 + "\r\nhello", body: UntilClose},
	{name: "chunked", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", body: Chunked},
	{name: "bad chunk", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", reject: true},
}

// walk reads a chunked body whole: its data and length, or false.
func walk(b []byte) (data []byte, n int, ok bool) {
	body := NewBody(Chunked, 0)
	data = make([]byte, len(b))
	m, n, ok := body.Read(data, b)
	if !ok || !body.AtLast() {
		return nil, n, false
	}
	_, last, ok := body.TakeLast(b[n:], nil)
	return data[:m], n + last, ok && last > 0
}

func TestSmugglingShapes(t *testing.T) {
	if n := len(requestShapes) + len(responseShapes); n < 60 {
		t.Fatalf("%d shapes, want at least 60", n)
	}
	for _, s := range requestShapes {
		t.Run("request/"+s.name, func(t *testing.T) {
			var r Request
			n, refusal := parseRequest(s.in, &r)
			ok := refusal == nil && n > 0
			if ok && r.Body == Chunked {
				_, _, ok = walk([]byte(s.in)[n:])
			}
			if ok == s.reject || ok && r.Body != s.body {
				t.Errorf("%q: accepted %v as %d, %v", s.in, ok, r.Body, refusal)
			}
		})
	}
	for _, s := range responseShapes {
		t.Run("response/"+s.name, func(t *testing.T) {
			b := []byte(s.in)
			var scan Scan
			var r Response
			n, ok := scan.Find(b)
			ok = ok && n > 0 && ParseResponse(b[:n], false, &r)
			if ok && r.Body == Chunked {
				_, _, ok = walk(b[n:])
			}
			if ok == s.reject || ok && r.Body != s.body {
				t.Errorf("%q: accepted %v as %d", s.in, ok, r.Body)
			}
		})
	}
}
