package registry

import (
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
		answer, err := route.serve(w, r, p)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		write(w, http.StatusOK, answer)
	}
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

func inTime(f serveFunc) serveFunc {
	return func(w http.ResponseWriter, r *http.Request, p *passport.Principal) (any, error) {
		ctx, cancel := context.WithTimeout(r.Context(), workerTime)
		defer cancel()
		return f(w, r.WithContext(ctx), p)
	}
}

// Large bodies are few: at most largeBodies of one owner's are in memory at a
// time, so that a flood fills no node and holds up only its own token. How long
// a body may take is the engine's business.
const (
	largeBody   = 1 << 20
	largeBodies = 8
)

// serveJSON is the shape of every POST: the body is read once, within its
// limit, decoded once, and handed on.
func serveJSON[Q any](s *Server, do func(context.Context, *passport.Principal, *Q) (any, error)) serveFunc {
	return func(w http.ResponseWriter, r *http.Request, p *passport.Principal) (any, error) {
		body, done, err := s.body(w, r, p.Share)
		defer done()
		if err != nil {
			return nil, err
		}
		q := new(Q)
		if err := json.Unmarshal(body, q); err != nil {
			return nil, malformed(err)
		}
		return do(r.Context(), p, q)
	}
}

// body reads the request's body. done gives its place to the next one.
func (s *Server) body(w http.ResponseWriter, r *http.Request, share string) (body []byte, done func(), err error) {
	done = func() {}
	if r.ContentLength > api.MaxBody {
		return nil, done, pinboard.BodyTooLarge
	}
	if r.ContentLength < 0 || r.ContentLength > largeBody {
		large := s.large(share)
		select {
		case large <- struct{}{}:
			done = func() { <-large }
		case <-r.Context().Done():
			return nil, done, pinboard.Overloaded
		}
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, api.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, done, pinboard.BodyTooLarge
	case err != nil:
		return nil, done, pinboard.BadRequest
	}
	return body, done, nil
}

// large holds one place per large body of a share (passport.Principal.Share);
// shares are configured, so they are few.
func (s *Server) large(share string) chan struct{} {
	places, _ := s.larges.LoadOrStore(share, make(chan struct{}, largeBodies))
	return places.(chan struct{})
}

func malformed(err error) error {
	var field *api.FieldError
	if errors.As(err, &field) {
		return field
	}
	return &api.FieldError{Want: "want well-formed JSON"}
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

// next is the cursor as lists print it: null at the end.
func next(cursor string) *string {
	if cursor == "" {
		return nil
	}
	return &cursor
}

// write sends a body that is complete before the first byte leaves.
func write(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
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
	v := judge(err)
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
