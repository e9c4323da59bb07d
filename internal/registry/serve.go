package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/passport"
)

// A serveFunc handles an authenticated call and returns the body of the 200.
type serveFunc func(w http.ResponseWriter, r *http.Request, p *passport.Principal) (any, error)

// ServeHTTP judges, in this order: the token, the path, the method, the scope;
// only then is the body read, and only then does it matter whether the store
// is there. Paths are compared as they were received, so an
// escaped or doubled slash opens nothing (FC-29).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := s.Tokens.Authenticate(r.Header["Authorization"])
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="pinboard"`)
		s.refuse(w, r, pinboard.Unauthorized)
		return
	}
	route, ok := s.routes[r.URL.EscapedPath()]
	switch {
	case !ok:
		s.refuse(w, r, pinboard.NotFound)
	case r.Method != route.method && !(route.method == http.MethodGet && r.Method == http.MethodHead):
		w.Header().Set("Allow", allow(route.method))
		s.refuse(w, r, pinboard.MethodNotAllowed)
	case !p.May(route.scope):
		s.refuse(w, r, denied("token lacks the scope "+route.scope))
	case s.Directory == nil:
		s.refuse(w, r, pinboard.StoreUnavailable)
	default:
		s.serve(w, r, route, p)
	}
}

// serve runs a route within its time and within the budget, which has the call
// until the answer is written.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, route route, p *passport.Principal) {
	if route.time > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), route.time)
		defer cancel()
		r = r.WithContext(ctx)
	}
	if r.ContentLength > api.MaxBody {
		s.refuse(w, r, pinboard.BodyTooLarge)
		return
	}
	part, cost := route.cost(r)
	done, err := s.budget.take(r.Context(), p.Share, part, cost)
	defer done()
	var answer any
	if err == nil {
		answer, err = route.serve(w, r, p)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	write(w, http.StatusOK, answer)
}

func allow(method string) string {
	if method == http.MethodGet {
		return "GET, HEAD"
	}
	return method
}

// workerTime is what a worker's call takes at most, body included: the client
// gives up at 5 s and would not hear what was done for it after that.
const workerTime = 4500 * time.Millisecond

// cost is what a call takes of the budget: an unannounced body counts as the
// largest, an answer as what it may be at most.
func (t route) cost(r *http.Request) (part, int64) {
	switch {
	case t.method == http.MethodGet && t.answer > smallBody:
		return answers, t.answer
	case t.method == http.MethodGet:
		return smallBodies, t.answer
	case r.ContentLength < 0:
		return largeBodies, api.MaxBody
	case r.ContentLength > smallBody:
		return largeBodies, r.ContentLength
	}
	return smallBodies, r.ContentLength
}

// serveJSON is the shape of every POST: the body is read once, within its
// limit, decoded once, and handed on.
func serveJSON[Q any, P interface {
	*Q
	json.Unmarshaler
}](do func(context.Context, *passport.Principal, P) (any, error)) serveFunc {
	return func(w http.ResponseWriter, r *http.Request, p *passport.Principal) (any, error) {
		body, err := readBody(w, r)
		if err != nil {
			return nil, err
		}
		q := P(new(Q))
		if !json.Valid(body) {
			return nil, &api.FieldError{Want: "want well-formed JSON"}
		}
		if err := q.UnmarshalJSON(body); err != nil {
			return nil, err
		}
		return do(r.Context(), p, q)
	}
}

// readBody reads the request's body, whose length the budget has judged. How
// long that may take is the engine's business.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, err error) {
	if r.ContentLength >= 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, api.MaxBody))
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, pinboard.BodyTooLarge
	case err != nil:
		return nil, pinboard.BadRequest
	}
	return body, nil
}

// A page is the part of a list that was asked for.
type page struct {
	after string
	limit int
}

const (
	pageDefault = 100
	pageMost    = 1000
)

// serveList is the shape of every paged GET.
func serveList(do func(context.Context, page) (any, error)) serveFunc {
	return func(_ http.ResponseWriter, r *http.Request, _ *passport.Principal) (any, error) {
		q := r.URL.Query()
		at := page{after: q.Get("after"), limit: pageDefault}
		if text := q.Get("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return nil, &api.FieldError{Field: "limit", Want: "want an integer from 1 to 1000"}
			}
			at.limit = min(n, pageMost)
		}
		return do(r.Context(), at)
	}
}

// fit cuts a page at listAnswer bytes; it holds one item at least.
func fit[T any](list []T) []T {
	size := 0
	for i := range list {
		b, err := json.Marshal(list[i])
		if size += len(b); i > 0 && (size > listAnswer || err != nil) {
			return list[:i]
		}
	}
	return list
}

// next is the cursor as lists print it: null at the end.
func next(cursor string) *string {
	if cursor == "" {
		return nil
	}
	return &cursor
}

// write sends a body that is complete before the first byte leaves.
func write(w http.ResponseWriter, status int, answer any) {
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false) // six bytes for one of a worker's own
	err := e.Encode(answer)
	body := bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"internal error","code":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller may be gone
}

// refuse answers an error: its code, its words, and when to come back.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	v := verdictOf(err)
	if v.unexpected {
		s.Log.Error("registry call failed", "path", r.URL.Path, "requestId", r.Header.Get("X-Request-Id"), "error", strings.ReplaceAll(err.Error(), "\n", ": "))
	}
	body := v.body
	body.Code = v.refusal.Code
	if body.Error == "" {
		body.Error = v.refusal.Text
	}
	if v.refusal.Retry {
		seconds := retryAfter(v.after, s.Rand())
		body.RetryAfterMs = seconds * 1000
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	w.Header().Set(api.HeaderError, v.refusal.Code)
	write(w, v.refusal.Status, body)
}

// retryAfter is whole seconds, at least what was asked for, spread over half
// as much again and a second, so that those who were refused together do not
// come back together (FC-51).
func retryAfter(after time.Duration, random float64) int64 {
	least := max(math.Ceil(after.Seconds()), 1)
	return int64(least + math.Floor(random*(least/2+1)))
}
