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

// Bounds on single values, lists and the whole. They exist so that nobody
// stores a megabyte under one name, and decoding stops at them: a body makes no
// more memory than its own length, however many tiny values it holds. Every
// real client stays far below.
const (
	maxText      = 256
	maxSecret    = 1024
	maxURL       = 2048
	maxInstances = 100_000 // a client holds 10 000 by default; each id that is nobody's makes a row
	maxReleases  = 100_000 // as many as one may hold
	maxAcks      = 10_000
	maxNames     = 256      // namespaces, and what is said by namespace
	maxMembers   = 128      // of one object, known and unknown
	maxStored    = 64 << 10 // of a registration, as it is stored
	maxHeadroom  = 1e15     // finite is not enough: sums of 1e308 overflow to infinity
	maxSeconds   = 1e9
)

// An object reads the fields of one JSON object; the first error sticks.
type object struct {
	at     string // prefix of field names, "" or "[3]."
	fields []field
	err    error
}

// A field is a member; its value is a part of the body.
type field struct {
	name  string
	value []byte
}

func parseObject(body []byte, at string) *object {
	o := new(object)
	o.parse(body, at)
	return o
}

// parse starts over with another body.
func (o *object) parse(body []byte, at string) {
	o.at, o.fields, o.err = at, o.fields[:0], nil
	fail := func(want string) { o.err = &FieldError{Field: trimDot(at), Want: want} }
	ok := members(body, func(name, value []byte) bool {
		if len(o.fields) == maxMembers {
			fail("want at most " + strconv.Itoa(maxMembers) + " members")
			return false
		}
		key, _ := text(name, maxText) // a longer name is none of ours
		o.fields = append(o.fields, field{key, value})
		return true
	})
	if !ok {
		fail("want one JSON object")
	}
}

// find is the value of a member, the last of that name; nil when there is none.
func (o *object) find(name string) []byte {
	for i := len(o.fields) - 1; i >= 0; i-- {
		if o.fields[i].name == name {
			return o.fields[i].value
		}
	}
	return nil
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
func (o *object) raw(name string) []byte {
	v := o.find(name)
	if bytes.Equal(v, []byte("null")) {
		return nil
	}
	return v
}

// has reports whether the field is there, null included.
func (o *object) has(name string) bool {
	return o.find(name) != nil
}

// text decodes a JSON string of at most max characters. One that must be
// longer is not decoded.
func text(raw []byte, max int) (s string, ok bool) {
	const escaped = len(`\ud800\udc00`) // the longest spelling of a character
	if len(raw) < 2 || raw[0] != '"' || len(raw) > 2+escaped*max {
		return "", false
	}
	plain := raw[1 : len(raw)-1]
	if bytes.IndexByte(plain, '\\') >= 0 || !utf8.Valid(plain) {
		return spelled(raw, max)
	}
	return string(plain), utf8.RuneCount(plain) <= max
}

// spelled is text of a string with escapes, or with bytes that are no text.
func spelled(raw []byte, max int) (s string, ok bool) {
	err := json.Unmarshal(raw, &s)
	return s, err == nil && utf8.RuneCountInString(s) <= max
}

// strings reads a list of at most most strings of maxText characters; want and
// many say what is asked for where it holds something else, or more.
func (o *object) strings(name string, raw []byte, most int, want, many string) (list []string) {
	ok := elements(raw, func(value []byte) bool {
		s, ok := text(value, maxText)
		switch {
		case len(list) == most:
			o.fail(name, many)
		case !ok:
			o.fail(name, want)
		default:
			list = append(list, s)
		}
		return o.err == nil
	})
	if !ok {
		o.fail(name, want)
	}
	return list
}

// optional decodes a number or boolean into v; it reports whether the field was
// there and right.
func optional[T any](o *object, name string, v *T, want string) bool {
	const long = 512 // no number needs it
	raw := o.raw(name)
	if raw == nil {
		return false
	}
	if len(raw) > long || json.Unmarshal(raw, v) != nil {
		o.fail(name, want)
		return false
	}
	return true
}

// token is a name that may travel in a header or a key: visible ASCII.
func (o *object) token(name string, max int) string {
	raw := o.raw(name)
	if raw == nil {
		return ""
	}
	s, ok := text(raw, max)
	switch {
	case raw[0] != '"':
		o.fail(name, "want a string")
	case !ok || s == "" || !visible(s):
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
	raw := o.raw(name)
	if raw == nil {
		return "", false
	}
	if raw[0] != '"' {
		o.fail(name, "want a string")
		return "", false
	}
	if s, ok = text(raw, max); !ok {
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
