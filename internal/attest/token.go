// Package attest mints and verifies the signed identity that rides on every
// forward: Pinboard-Attestation, a compact JWS under the worker's own secret
// (docs/protocol.md, "What Pinboard says to workers").
package attest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

const (
	lifetime = 1 * time.Second  // F1: no late forward outlives the fence by this token
	skew     = 30 * time.Second // what verifiers allow on either side
)

// Claims is what a token says. The audience is the session the row named.
type Claims struct {
	Audience string
	Issued   time.Time // whole seconds
	Expires  time.Time
	Caller   string // "<namespace>/<id>" of a proven calling instance, "" for none
	Depth    int    // subrequest depth; on the wire only beside a caller
}

var b64 = base64.RawURLEncoding.Strict()

// head is the encoded header with its dot. Verifiers refuse any other member.
var head = b64.EncodeToString([]byte(`{"alg":"HS256","typ":"pinboard+jwt"}`)) + "."

// Append signs claims issued at now and appends the token to dst. Key is the
// ASCII text of secret, not the bytes it may encode. Absent claims are left
// out: null is refused by verifiers.
func Append(dst []byte, secret, audience, caller string, depth int, now time.Time) []byte {
	iat := now.Unix()
	claims := append(make([]byte, 0, 192), `{"aud":`...)
	claims = appendString(claims, audience)
	claims = append(claims, `,"iat":`...)
	claims = strconv.AppendInt(claims, iat, 10)
	claims = append(claims, `,"exp":`...)
	claims = strconv.AppendInt(claims, iat+int64(lifetime/time.Second), 10)
	if caller != "" {
		claims = append(claims, `,"caller":`...)
		claims = appendString(claims, caller)
		claims = append(claims, `,"depth":`...)
		claims = strconv.AppendInt(claims, int64(depth), 10)
	}
	claims = append(claims, '}')

	start := len(dst)
	dst = append(dst, head...)
	dst = b64.AppendEncode(dst, claims)
	mac := sign(secret, dst[start:])
	dst = append(dst, '.')
	return b64.AppendEncode(dst, mac)
}

func appendString(dst []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always marshals
	return append(dst, quoted...)
}

func sign(secret string, input []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(input)
	return mac.Sum(nil)
}

// ErrInvalid is every reason why a token proves nothing.
var ErrInvalid = errors.New("invalid attestation")

// Verify reads a token as the real client does: the signature first, then the
// header, the types, the audience, and the time with 30 s of skew. accept says
// whether the audience is one of the verifier's own sessions.
func Verify(token, secret string, accept func(audience string) bool, now time.Time) (Claims, error) {
	body, err := authentic([]byte(token), secret)
	if err != nil {
		return Claims{}, err
	}
	c, err := parse(body)
	if err != nil || !accept(c.Audience) {
		return Claims{}, ErrInvalid
	}
	if now.Before(c.Issued.Add(-skew)) || now.After(c.Expires.Add(skew)) {
		return Claims{}, ErrInvalid
	}
	return c, nil
}

// Ours reports whether a token was minted by this fleet, at whatever time:
// the key comes from the session it names. A client's request that bears one
// has been through Pinboard already, so it is a loop.
func Ours(token []byte, secret func(session string) (string, bool)) bool {
	_, body, _, ok := split(token)
	if !ok {
		return false
	}
	c, err := parse(body)
	if err != nil {
		return false
	}
	key, known := secret(c.Audience)
	if !known {
		return false
	}
	_, err = authentic(token, key)
	return err == nil
}

// Formed reports whether a token is one that some fleet may have minted: its
// form is right, whoever signed it.
func Formed(token []byte) bool {
	signed, body, _, ok := split(token)
	if !ok || !headed(signed) {
		return false
	}
	_, err := parse(body)
	return err == nil
}

// split cuts a token into the signed part, the decoded claims and the decoded
// signature.
func split(token []byte) (signed, claims, mac []byte, ok bool) {
	i, j := bytes.IndexByte(token, '.'), bytes.LastIndexByte(token, '.')
	if i < 0 || i == j || bytes.IndexByte(token[i+1:j], '.') >= 0 || bytes.ContainsAny(token, "\r\n") {
		return nil, nil, nil, false // the decoder would skip line ends
	}
	claims, err := b64.AppendDecode(nil, token[i+1:j])
	if err != nil {
		return nil, nil, nil, false
	}
	mac, err = b64.AppendDecode(nil, token[j+1:])
	return token[:j], claims, mac, err == nil
}

// authentic answers the claims of a token whose signature and header are right.
func authentic(token []byte, secret string) ([]byte, error) {
	signed, claims, mac, ok := split(token)
	if !ok || secret == "" || !hmac.Equal(mac, sign(secret, signed)) || !headed(signed) {
		return nil, ErrInvalid
	}
	return claims, nil
}

// headed reports a signed part with the header of all tokens.
func headed(signed []byte) bool {
	raw, err := b64.AppendDecode(nil, signed[:bytes.IndexByte(signed, '.')])
	var header map[string]string // a member that is no string fails
	return err == nil && json.Unmarshal(raw, &header) == nil &&
		len(header) == 2 && header["alg"] == "HS256" && header["typ"] == "pinboard+jwt"
}

func parse(body []byte) (Claims, error) {
	var raw map[string]json.RawMessage
	if json.Unmarshal(body, &raw) != nil {
		return Claims{}, ErrInvalid
	}
	var c Claims
	iat, ok1 := integer(raw, "iat")
	exp, ok2 := integer(raw, "exp")
	aud, ok3 := text(raw, "aud")
	if !ok1 || !ok2 || !ok3 {
		return Claims{}, ErrInvalid
	}
	c.Audience, c.Issued, c.Expires = aud, time.Unix(iat, 0), time.Unix(exp, 0)
	if _, there := raw["caller"]; there {
		if c.Caller, ok1 = text(raw, "caller"); !ok1 {
			return Claims{}, ErrInvalid
		}
	}
	if _, there := raw["depth"]; there {
		depth, ok := integer(raw, "depth")
		if !ok {
			return Claims{}, ErrInvalid
		}
		c.Depth = int(depth)
	}
	return c, nil
}

// integer reads a JSON integer; 17.0, 1.7e9 and booleans are none.
func integer(raw map[string]json.RawMessage, name string) (int64, bool) {
	n, err := strconv.ParseInt(string(raw[name]), 10, 64)
	return n, err == nil
}

func text(raw map[string]json.RawMessage, name string) (s string, ok bool) {
	v := raw[name]
	return s, len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil
}
