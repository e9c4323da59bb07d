package ownership

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"pinboard"
)

// World is the env and hostname of everything outside hostname mode.
const World = "*"

// A Key names a row: an id under a namespace in one env. The JSON names are
// stored bytes (in orders).
type Key struct {
	Env       string `json:"env"`
	Namespace string `json:"ns"`
	ID        string `json:"id"`
}

// Bucket is the key's share of a store of n buckets. The env does not count,
// so one id lands in one bucket whatever hostname asks for it.
func (k Key) Bucket(n int) int {
	var d xxhash.Digest
	d.Reset()
	d.WriteString(k.Namespace)
	d.WriteString("/")
	d.WriteString(k.ID)
	return int(d.Sum64() % uint64(n))
}

var envEscaper = strings.NewReplacer("%", "%25", "/", "%2F")
var envUnescaper = strings.NewReplacer("%2F", "/", "%25", "%")

// String is the unambiguous form env + namespace + "/" + id, "/" and "%" of
// the env escaped.
func (k Key) String() string {
	return envEscaper.Replace(k.Env) + k.Namespace + "/" + k.ID
}

// ParseKey reads what Key.String wrote.
func ParseKey(s string) (Key, bool) {
	ns := strings.IndexByte(s, '/')
	id := strings.LastIndexByte(s, '/')
	if ns < 0 || id <= ns {
		return Key{}, false
	}
	k := Key{Env: envUnescaper.Replace(s[:ns]), Namespace: s[ns:id], ID: s[id+1:]}
	return k, pinboard.ValidID(k.ID)
}

// A Nonce marks the creator of an unconfirmed row (R2); never zero there.
type Nonce [7]byte
