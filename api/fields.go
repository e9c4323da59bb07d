package api

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// A FieldError says which field of a body is wrong and what belongs there.
// Field is "" for the body as a whole. The text goes to the client; it never
// repeats the value, which may be a secret.
type FieldError struct {
	Field string // "headroom", "[2].epoch", "instances"
	Want  string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "body: " + e.Want
	}
	return e.Field + ": " + e.Want
}

// Bounds on single values. They exist so that nobody stores a megabyte under
// one name; every real client stays far below.
const (
	maxText      = 256
	maxSecret    = 1024
	maxURL       = 2048
	maxInstances = 100_000 // a client holds 10 000 by default; each id that is nobody's makes a row
	maxAcks      = 10_000
	maxHeadroom  = 1e15 // finite is not enough: sums of 1e308 overflow to infinity
	maxSeconds   = 1e9
)

// An object reads the fields of one JSON object; the first error sticks.
type object struct {
	at     string // prefix of field names, "" or "[3]."
	fields map[string]json.RawMessage
	err    error
}

func parseObject(body []byte, at string) *object {
	o := &object{at: at}
	if err := json.Unmarshal(body, &o.fields); err != nil || o.fields == nil {
		o.err = &FieldError{Field: trimDot(at), Want: "want one JSON object"}
	}
	return o
}

func trimDot(at string) string {
	if at == "" {
		return ""
	}
	return at[:len(at)-1]
}

func (o *object) fail(name, want string) {
	if o.err == nil {
		o.err = &FieldError{Field: o.at + name, Want: want}
	}
}

// raw is the field's bytes, nil when absent or null.
func (o *object) raw(name string) json.RawMessage {
	v := o.fields[name]
	if bytes.Equal(v, []byte("null")) {
		return nil
	}
	return v
}

// has reports whether the field is there, null included.
func (o *object) has(name string) bool {
	_, ok := o.fields[name]
	return ok
}

// optional decodes a field into v; it reports whether the field was there and right.
func optional[T any](o *object, name string, v *T, want string) bool {
	raw := o.raw(name)
	if raw == nil {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		o.fail(name, want)
		return false
	}
	return true
}

// token is a name that may travel in a header or a key: visible ASCII.
func (o *object) token(name string, max int) string {
	var s string
	if !optional(o, name, &s, "want a string") {
		return ""
	}
	if s == "" || len(s) > max || !visible(s) {
		o.fail(name, "want 1 to "+strconv.Itoa(max)+" visible ASCII characters")
	}
	return s
}

func (o *object) requiredToken(name string, max int) string {
	s := o.token(name, max)
	if s == "" {
		o.fail(name, "required")
	}
	return s
}

func visible(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// text is any string of at most max characters; ok is false when absent.
func (o *object) text(name string, max int) (s string, ok bool) {
	if !optional(o, name, &s, "want a string") {
		return "", false
	}
	if utf8.RuneCountInString(s) > max {
		o.fail(name, "want at most "+strconv.Itoa(max)+" characters")
	}
	return s, true
}

func (o *object) requiredText(name string, max int) string {
	s, _ := o.text(name, max)
	if s == "" {
		o.fail(name, "required")
	}
	return s
}

func (o *object) bool(name string) (v bool) {
	optional(o, name, &v, "want true or false")
	return v
}

// number is a finite number from 0 to max.
func (o *object) number(name string, max float64) *float64 {
	var f float64
	if !optional(o, name, &f, "want a number") {
		return nil
	}
	if f < 0 || f > max || math.IsNaN(f) {
		o.fail(name, "want a number from 0 to "+strconv.FormatFloat(max, 'g', -1, 64))
	}
	return &f
}

func (o *object) headroom() float64 {
	f := o.number("headroom", maxHeadroom)
	if f == nil {
		o.fail("headroom", "required")
		return 0
	}
	return *f
}

// seconds is an optional duration; nil when absent or null.
func (o *object) seconds(name string) *time.Duration {
	f := o.number(name, maxSeconds)
	if f == nil {
		return nil
	}
	d := time.Duration(*f * float64(time.Second))
	return &d
}

// integer is an optional whole number from min up.
func (o *object) integer(name string, min int64) (n int64) {
	if optional(o, name, &n, "want an integer") && n < min {
		o.fail(name, "want an integer, at least "+strconv.FormatInt(min, 10))
	}
	return n
}

// Seconds is d as the wire has durations: a number of seconds.
func Seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := max(d.Seconds(), 0)
	return &s
}
