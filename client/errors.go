package client

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"pinboard/api"
)

// A Kind is one of the ways in which a call fails. It is itself an error, so
// that errors.Is(err, client.Reregister) reads as it sounds.
type Kind string

// The closed list.
const (
	// Unreachable: no whole answer came. The node may have acted or not.
	Unreachable Kind = "pinboard did not answer"
	// Malformed: a 200 that lacks what it must carry; nothing of it counts.
	Malformed Kind = "malformed answer"
	// Deferred: 503, the same call may succeed after Error.RetryAfter.
	Deferred Kind = "not now"
	// Unauthorized: 401, the token is wrong.
	Unauthorized Kind = "unauthorized"
	// Reregister: the session is to be restated by a new registration.
	Reregister Kind = "registration wanted"
	// Superseded: another deployment owns every binding; stop for good.
	Superseded Kind = "superseded"
	// Rejected: every other status.
	Rejected Kind = "rejected"
)

func (k Kind) Error() string { return string(k) }

// An Error is a failed call.
type Error struct {
	Kind       Kind
	Status     int           // 0 if Unreachable
	Code       string        // Pinboard's stable code, if the answer bore one
	Text       string        // its text
	RetryAfter time.Duration // Deferred: at least 50 ms, one second if the answer did not say
	Cause      error         // Unreachable: what the network said
}

// Error tells kind, status and text.
func (e *Error) Error() string {
	switch {
	case e.Cause != nil:
		return fmt.Sprintf("%s: %v", e.Kind, e.Cause)
	case e.Text != "":
		return fmt.Sprintf("%s: %d %s", e.Kind, e.Status, e.Text)
	}
	return fmt.Sprintf("%s: %d", e.Kind, e.Status)
}

// Is matches the Kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

func unreachable(cause error) *Error { return &Error{Kind: Unreachable, Cause: cause} }

func malformed() *Error { return &Error{Kind: Malformed, Status: http.StatusOK} }

// rejected sorts an answer that is no 200. Superseded needs its 409;
// reregister counts with any status (docs/protocol.md, "heartbeat").
func rejected(res *http.Response, body []byte) *Error {
	e := &Error{Kind: Rejected, Status: res.StatusCode}
	var b api.Error
	if json.Unmarshal(body, &b) == nil {
		e.Code, e.Text = b.Code, b.Error
	}
	switch {
	case b.Superseded && e.Status == http.StatusConflict:
		e.Kind = Superseded
	case b.Reregister:
		e.Kind = Reregister
	case e.Status == http.StatusUnauthorized:
		e.Kind = Unauthorized
	case e.Status == http.StatusServiceUnavailable:
		e.Kind = Deferred
		e.RetryAfter = retryAfter(res.Header.Get("Retry-After"))
	}
	return e
}

func retryAfter(text string) time.Duration {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(s) {
		return time.Second
	}
	return max(clamp(s), 50*time.Millisecond)
}
