package passport

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Limits of a token of an issuer.
const (
	leeway     = 10 * time.Second // by how much clocks may differ
	maxJWT     = 8 << 10
	maxSubject = 255
	maxIssuer  = 512
)

// asymmetric is every algorithm that an issuer may be given: the node has only
// public keys, so "none" and those with a shared secret are not among them.
var asymmetric = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// usual is what an issuer may use that names no algorithms.
var usual = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// An issuer signs tokens for workers and operators; immutable but for its keys.
type issuer struct {
	id         string // of the provider: it begins the owner of a session
	name       string // the claim iss
	audience   jwt.Audience
	algorithms []jose.SignatureAlgorithm
	keys       *keyring
	now        func() time.Time
}

// granted is what a token says besides its registered claims: scopes as a list
// or as one text (RFC 8693 section 4.2), and the limits of a passport's key,
// as a claim of its own or under "claims" as in the passport.
type granted struct {
	Scope    words   `json:"scope"`
	Scopes   words   `json:"scopes"`
	Scp      words   `json:"scp"`
	Pinboard *claims `json:"pinboard"`
	Claims   struct {
		Pinboard *claims `json:"pinboard"`
	} `json:"claims"`
}

// words is a list, or one text with spaces.
type words []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*w = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// signed judges a token that is no static one. Why one is refused is told to
// nobody: whoever holds it knows what it says, and a log must not.
func (p *Passport) signed(token string) (*Principal, bool) {
	if len(p.issuers) == 0 || len(token) > maxJWT || strings.Count(token, ".") != 2 {
		return nil, false
	}
	t, err := jwt.ParseSigned(token, asymmetric)
	if err != nil || len(t.Headers) != 1 {
		return nil, false
	}
	var unproved struct {
		Issuer string `json:"iss"`
	}
	if t.UnsafeClaimsWithoutVerification(&unproved) != nil {
		return nil, false
	}
	i := p.issuers[unproved.Issuer]
	if i == nil {
		return nil, false
	}
	return i.judge(t)
}

func (i *issuer) judge(t *jwt.JSONWebToken) (*Principal, bool) {
	h := t.Headers[0]
	alg := jose.SignatureAlgorithm(h.Algorithm)
	if !slices.Contains(i.algorithms, alg) || !ofOurType(h.ExtraHeaders[jose.HeaderType]) {
		return nil, false
	}
	for _, key := range i.keys.find(alg, h.KeyID) {
		var std jwt.Claims
		var own granted
		if t.Claims(key.Key, &std, &own) == nil {
			return i.principal(&std, &own)
		}
	}
	return nil, false
}

// ofOurType refuses tokens that an issuer signs for other ends (RFC 8725
// section 3.11): no type, JWT and at+jwt are ours.
func ofOurType(typ any) bool {
	s, ok := typ.(string)
	switch strings.TrimPrefix(strings.ToLower(s), "application/") {
	case "jwt", "at+jwt":
		return true
	}
	return typ == nil || ok && s == ""
}

// principal judges the claims of a token whose signature is good. One without
// an end is refused: it would be as good as a static one.
func (i *issuer) principal(std *jwt.Claims, own *granted) (*Principal, bool) {
	expected := jwt.Expected{Issuer: i.name, AnyAudience: i.audience, Time: i.now()}
	if std.Expiry == nil || std.ValidateWithLeeway(expected, leeway) != nil || !subject(std.Subject) {
		return nil, false
	}
	limits := own.Pinboard
	switch {
	case limits != nil && own.Claims.Pinboard != nil:
		return nil, false
	case limits == nil:
		limits = own.Claims.Pinboard
	}
	if limits == nil {
		limits = &claims{}
	}
	return newPrincipal(i.id+"/"+std.Subject, i.id, slices.Concat(own.Scope, own.Scopes, own.Scp), limits), true
}

// subject admits what can be shown in lists and logs.
func subject(s string) bool {
	return s != "" && len(s) <= maxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// issuerOf reads a provider of type jwt.
func issuerOf(pr *provider, ring func(where string) (*keyring, error), now func() time.Time) (*issuer, error) {
	i := &issuer{id: pr.ID, name: pr.Issuer, audience: jwt.Audience(pr.Audience), now: now, algorithms: usual}
	if strings.TrimSpace(i.name) == "" || len(i.name) > maxIssuer {
		return nil, errors.New("issuer: want the text of the claim iss")
	}
	if len(i.audience) == 0 || slices.Contains(i.audience, "") {
		return nil, errors.New("audience: want the text of the claim aud, or a list")
	}
	if pr.Algorithms != nil {
		i.algorithms = nil
	}
	for _, name := range pr.Algorithms {
		alg := jose.SignatureAlgorithm(name)
		if !slices.Contains(asymmetric, alg) {
			return nil, fmt.Errorf("algorithms: want some of %v", asymmetric)
		}
		i.algorithms = append(i.algorithms, alg)
	}
	if len(i.algorithms) == 0 {
		return nil, fmt.Errorf("algorithms: want some of %v", asymmetric)
	}
	var err error
	if i.keys, err = ring(pr.JWKS); err != nil {
		return nil, fmt.Errorf("jwks: %w", err)
	}
	return i, nil
}
