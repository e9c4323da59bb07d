package redisstore

import (
	"strconv"
	"strings"

	"pinboard/internal/ownership"
)

// Keys of bucket i all carry the hash tag {i}, so they share a cluster slot.
// A row's key is the tag followed by Key.String; everything else begins with
// "%" and a letter there, which no Key.String does ("%" is always "%25" or
// "%2F" in it).
//
//	P{i}<env>/<ns>/<id>   row
//	P{i}%m                meta: "m" the record, "e" the last epoch
//	P{i}%s                sessions: changing part by packed id
//	P{i}%w                workers: immutable part by packed id
//	P{i}%i                index: packed id of a session by name
//	P{i}%o                orders by process
//	P{i}%c                counts by name
//	P{i}%r                ring of entries, newest first
//	P{i}%g                8 bytes counting the commits, then the generation
//	P{i}%b:<host>|<ns>    binding
//	P{i}%l:<run><packed>  lease that hits may rely on; expires with it
//	P{0}%h                header: format, bucket count, mode
type keyspace struct {
	prefix string
	tags   []string
}

func newKeyspace(prefix string, buckets int) keyspace {
	k := keyspace{prefix: prefix, tags: make([]string, buckets)}
	for b := range k.tags {
		k.tags[b] = prefix + "{" + strconv.Itoa(b) + "}"
	}
	return k
}

// Positions in KEYS of both scripts.
const (
	keyMeta = iota + 1
	keySessions
	keyWorkers
	keyIndex
	keyOrders
	keyCounts
	keyRing
	keyHistory
	firstKey // rows and bindings from here
)

func (k keyspace) fixed(b int) []string {
	t := k.tags[b]
	return append(make([]string, 0, 16), t+"%m", t+"%s", t+"%w", t+"%i", t+"%o", t+"%c", t+"%r", t+historyMark)
}

func (k keyspace) header() string { return k.tags[0] + "%h" }

func (k keyspace) row(b int, key ownership.Key) string {
	return string(k.appendRow(nil, b, key))
}

func (k keyspace) appendRow(dst []byte, b int, key ownership.Key) []byte {
	dst = append(dst, k.tags[b]...)
	dst = appendEscaped(dst, key.Env, '/')
	dst = append(dst, key.Namespace...)
	dst = append(dst, '/')
	return append(dst, key.ID...)
}

func (k keyspace) rowLen(b int, key ownership.Key) int {
	return len(k.tags[b]) + escapedLen(key.Env, '/') + len(key.Namespace) + 1 + len(key.ID)
}

// parseRow reads the key of a row of bucket b; ok is false for anything else.
func (k keyspace) parseRow(b int, s string) (ownership.Key, bool) {
	rest, ok := strings.CutPrefix(s, k.tags[b])
	if !ok || strings.HasPrefix(rest, "%") && !strings.HasPrefix(rest, "%2") {
		return ownership.Key{}, false
	}
	return ownership.ParseKey(rest)
}

func (k keyspace) binding(b int, key ownership.BindKey) string {
	return string(k.appendBinding(nil, b, key))
}

func (k keyspace) appendBinding(dst []byte, b int, key ownership.BindKey) []byte {
	dst = append(dst, k.tags[b]...)
	dst = append(dst, "%b:"...)
	dst = appendEscaped(dst, key.Host, '|')
	dst = append(dst, '|')
	return append(dst, key.Namespace...)
}

func (k keyspace) bindingLen(b int, key ownership.BindKey) int {
	return len(k.tags[b]) + len("%b:") + escapedLen(key.Host, '|') + 1 + len(key.Namespace)
}

// historyMark follows the tag in the key of the bucket's history: how many
// commits it had, and its generation. Hits read it, too.
const (
	historyMark = "%g"
	historyGen  = 8 // where the generation begins
)

// leaseMark follows the tag in the key of a lease; then come the server and
// the session's packed id.
const leaseMark = "%l:"

func (k keyspace) lease(b int, run, session string) string {
	dst := append([]byte(k.tags[b]), leaseMark...)
	dst = append(dst, shortRun(run)...)
	return string(appendPacked(dst, session))
}

// shortRun is what lease keys carry of a server: 48 bits of a random run id
// tell two servers apart.
func shortRun(run string) string {
	return run[:min(12, len(run))]
}

func appendEscaped(dst []byte, s string, sep byte) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == '%' || c == sep {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

func escapedLen(s string, sep byte) int {
	n := len(s)
	for i := 0; i < len(s); i++ {
		if s[i] == '%' || s[i] == sep {
			n += 2
		}
	}
	return n
}

// A packed session id is what hash fields, index entries and lease keys hold: \x01 and 12 bytes for ids of the usual form, \x00 and the text else.
func packed(session string) string { return string(appendPacked(nil, session)) }

func appendPacked(dst []byte, session string) []byte {
	var raw [12]byte
	if compact(&raw, session) {
		dst = append(dst, 1)
		return append(dst, raw[:]...)
	}
	dst = append(dst, 0)
	return append(dst, session...)
}

func unpacked(t string) (session string, ok bool) {
	switch {
	case len(t) == 13 && t[0] == 1:
		return expand([]byte(t[1:])), true
	case len(t) > 0 && t[0] == 0:
		return t[1:], true
	}
	return "", false
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var sextet = func() (t [256]byte) {
	for i := range t {
		t[i] = 255
	}
	for i := 0; i < len(alphabet); i++ {
		t[alphabet[i]] = byte(i)
	}
	return t
}()

// compact packs 16 characters base64url; false for any other text.
func compact(dst *[12]byte, s string) bool {
	if len(s) != 16 {
		return false
	}
	for i := 0; i < 4; i++ {
		a, b, c, d := sextet[s[4*i]], sextet[s[4*i+1]], sextet[s[4*i+2]], sextet[s[4*i+3]]
		if a|b|c|d == 255 {
			return false
		}
		dst[3*i], dst[3*i+1], dst[3*i+2] = a<<2|b>>4, b<<4|c>>2, c<<6|d
	}
	return true
}

func expand(raw []byte) string {
	var b [16]byte
	for i := 0; i < 4; i++ {
		x, y, z := raw[3*i], raw[3*i+1], raw[3*i+2]
		b[4*i], b[4*i+1] = alphabet[x>>2], alphabet[x<<4&63|y>>4]
		b[4*i+2], b[4*i+3] = alphabet[y<<2&63|z>>6], alphabet[z&63]
	}
	return string(b[:])
}
