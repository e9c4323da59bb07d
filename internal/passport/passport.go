// Package passport says who may do what on the control plane: it reads
// PINBOARD_TOKEN and PINBOARD_PASSPORT and turns a bearer token into a
// Principal. It owns the comparison of secrets (constant time, over digests)
// and the judgement of tokens that a configured issuer signed (JWT).
package passport

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The two scopes. A worker registers, beats and releases; an operator looks
// and gives orders.
const (
	ScopeWorker   = "pinboard:worker"
	ScopeOperator = "pinboard:operator"
)

// A Principal is who a token stands for. Values are shared: never modify one.
type Principal struct {
	// Owner is provider id + "/" + key name, or + "/" + subject of a signed
	// token. Sessions belong to it, so rotated keys and renewed tokens share them.
	Owner string
	// Share is whose part of a node's budget a call takes: the owner, or the
	// provider of a signed token, since subjects are without number.
	Share string

	scopes     []string
	namespaces names
	hostnames  names
	envs       names
	envsStated bool
	backends   names
}

// May reports whether the token has the scope.
func (p *Principal) May(scope string) bool { return slices.Contains(p.scopes, scope) }

// Namespace reports whether the token may use the namespace.
func (p *Principal) Namespace(ns string) bool { return p.namespaces.has(ns) }

// Hostname reports whether the token may use the hostname.
func (p *Principal) Hostname(name string) bool { return p.hostnames.has(strings.ToLower(name)) }

// Env reports whether the token may join the env. stated is false when the
// token has no claim envs although its hostnames are limited: then those decide,
// which only who knows the bindings can judge, and may is false.
func (p *Principal) Env(name string) (may, stated bool) {
	if !p.envsStated {
		return p.hostnames.all, p.hostnames.all
	}
	return p.envs.has(name), true
}

// Backend reports whether the token may advertise this host: the name or
// literal of the URL, without port and brackets.
func (p *Principal) Backend(host string) bool { return p.backends.has(strings.ToLower(host)) }

// Names is a list of exact names, or everything.
type names struct {
	all  bool
	list []string
}

func (n names) has(s string) bool { return n.all || slices.Contains(n.list, s) }

// A Passport is the set of tokens of one node at one time; immutable.
type Passport struct {
	keys    []key
	issuers map[string]*issuer // by the claim iss
}

type key struct {
	digest    [sha256.Size]byte
	principal *Principal
}

// shared is the owner of PINBOARD_TOKEN; a provider id is never empty, so no
// passport can name it.
const shared = "/PINBOARD_TOKEN"

var everything = names{all: true}

// New builds a passport from PINBOARD_TOKEN and the passport document; either
// may be "", not both. Errors are one line for the operator and name no token.
func New(token, document string) (*Passport, error) {
	return newPassport(token, document, time.Now, func(where string) (*keyring, error) { return newKeyring(where, time.Now) })
}

func newPassport(token, document string, now func() time.Time, ring func(where string) (*keyring, error)) (*Passport, error) {
	p := &Passport{issuers: map[string]*issuer{}}
	if token != "" {
		if err := checkToken(token); err != nil {
			return nil, fmt.Errorf("PINBOARD_TOKEN: %w", err)
		}
		p.keys = append(p.keys, key{sha256.Sum256([]byte(token)), &Principal{
			Owner: shared, Share: shared, scopes: []string{ScopeWorker, ScopeOperator},
			namespaces: everything, hostnames: everything, envs: everything, envsStated: true, backends: everything,
		}})
	}
	if document != "" {
		if err := p.read(document, now, ring); err != nil {
			return nil, fmt.Errorf("PINBOARD_PASSPORT: %w", err)
		}
	}
	if len(p.keys) == 0 && len(p.issuers) == 0 {
		return nil, errors.New("PINBOARD_TOKEN: required (or PINBOARD_PASSPORT with at least one key or issuer)")
	}
	return p, nil
}

// checkToken refuses what nobody can send in a header, or sends by accident.
func checkToken(token string) error {
	if strings.TrimSpace(token) == "" {
		return errors.New("must not be blank")
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return errors.New("must be visible ASCII without spaces or line ends")
		}
	}
	return nil
}

// Authenticate judges the values of the Authorization header. Every key is
// compared, whether one matched before or not.
func (p *Passport) Authenticate(authorization []string) (*Principal, bool) {
	token, ok := bearer(authorization)
	if !ok {
		return nil, false
	}
	digest := sha256.Sum256([]byte(token))
	found := -1
	for i := range p.keys {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(digest[:], p.keys[i].digest[:]), i, found)
	}
	if found < 0 {
		return p.signed(token)
	}
	return p.keys[found].principal, true
}

// bearer reads the one Authorization field: the scheme in any case, one or
// more spaces, the token exactly (RFC 9110 section 11.4, RFC 6750 section 2.1).
func bearer(authorization []string) (string, bool) {
	if len(authorization) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(authorization[0], " ")
	token = strings.TrimLeft(token, " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// The document as docs/operating.md, "Tokens", shows it. Unknown members are ignored.
type document struct {
	Providers []provider `json:"providers"`
}

type provider struct {
	Type string `json:"type"`
	ID   string `json:"id"`

	Keys []struct { // of a staticToken
		Name   string   `json:"name"`
		Token  string   `json:"token"`
		Scopes []string `json:"scopes"`
		Claims struct {
			Pinboard claims `json:"pinboard"`
		} `json:"claims"`
	} `json:"keys"`

	Issuer     string   `json:"issuer"` // these of a jwt
	Audience   audience `json:"audience"`
	JWKS       string   `json:"jwks"`
	Algorithms []string `json:"algorithms"`
}

// claims limit a token, in the document and in signed tokens alike.
type claims struct {
	Namespaces          limit `json:"namespaces"`
	Hostnames           limit `json:"hostnames"`
	Envs                limit `json:"envs"`
	AllowedBackendHosts limit `json:"allowedBackendHosts"`
}

// A limit is a list of names. One that is null admits nothing, unlike one that
// is absent.
type limit struct {
	stated bool
	items  []string
}

// errList is what is wrong with a limit that is no list.
var errList = errors.New("want lists of strings")

// UnmarshalJSON implements json.Unmarshaler.
func (l *limit) UnmarshalJSON(text []byte) error {
	l.stated = true
	if json.Unmarshal(text, &l.items) != nil {
		return errList
	}
	return nil
}

// audience is a text or a list of them, as the claim aud.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

func newPrincipal(owner, share string, scopes []string, c *claims) *Principal {
	p := &Principal{
		Owner: owner, Share: share, scopes: scopes, namespaces: list(c.Namespaces.items), hostnames: everything,
		envs: list(c.Envs.items), envsStated: c.Envs.stated, backends: list(hosts(c.AllowedBackendHosts.items)),
	}
	if c.Hostnames.stated {
		p.hostnames = list(hosts(c.Hostnames.items))
	}
	return p
}

// read adds the providers of a document. The id of an issuer is its own: a
// subject may be any text, and an owner has one reading.
func (p *Passport) read(text string, now func() time.Time, ring func(where string) (*keyring, error)) error {
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return explain(err)
	}
	types := map[string]string{}
	for i, pr := range doc.Providers {
		at := fmt.Sprintf("providers[%d]", i)
		if err := checkName(pr.ID); err != nil && (pr.Type == "staticToken" || pr.Type == "jwt") {
			return fmt.Errorf("%s.id: %w", at, err)
		}
		other, used := types[pr.ID]
		if used && (pr.Type == "jwt" || other == "jwt") {
			return fmt.Errorf("%s.id: used twice", at)
		}
		types[pr.ID] = pr.Type
		switch pr.Type {
		case "staticToken":
			if err := p.readKeys(at, &pr); err != nil {
				return err
			}
		case "jwt":
			issuer, err := issuerOf(&pr, ring, now)
			if err != nil {
				return fmt.Errorf("%s.%w", at, err)
			}
			if p.issuers[issuer.name] != nil {
				return fmt.Errorf("%s.issuer: used twice", at)
			}
			p.issuers[issuer.name] = issuer
		default:
			return fmt.Errorf("%s.type: want \"staticToken\" or \"jwt\"", at)
		}
	}
	return nil
}

func (p *Passport) readKeys(at string, pr *provider) error {
	for j, k := range pr.Keys {
		at := fmt.Sprintf("%s.keys[%d]", at, j)
		if err := checkName(k.Name); err != nil {
			return fmt.Errorf("%s.name: %w", at, err)
		}
		if err := checkToken(k.Token); err != nil {
			return fmt.Errorf("%s.token: %w", at, err)
		}
		if err := checkScopes(k.Scopes); err != nil {
			return fmt.Errorf("%s.scopes: %w", at, err)
		}
		digest := sha256.Sum256([]byte(k.Token))
		if slices.ContainsFunc(p.keys, func(other key) bool { return other.digest == digest }) {
			return fmt.Errorf("%s.token: used twice", at)
		}
		owner := pr.ID + "/" + k.Name
		p.keys = append(p.keys, key{digest, newPrincipal(owner, owner, k.Scopes, &k.Claims.Pinboard)})
	}
	return nil
}

// explain words a JSON error without quoting the document, which holds tokens.
func explain(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s: wrong type", wrong.Field)
	}
	if errors.Is(err, errList) {
		return fmt.Errorf("claims.pinboard: %w", errList)
	}
	return errors.New("not a JSON object")
}

// checkName keeps "/" out, so that an Owner has one reading.
func checkName(s string) error {
	if strings.TrimSpace(s) == "" || strings.Contains(s, "/") || len(s) > 128 {
		return errors.New("want 1 to 128 characters without \"/\"")
	}
	return nil
}

func checkScopes(scopes []string) error {
	for _, s := range scopes {
		if s != ScopeWorker && s != ScopeOperator {
			return fmt.Errorf("want %q or %q", ScopeWorker, ScopeOperator)
		}
	}
	return nil
}

func list(items []string) names {
	return names{all: slices.Contains(items, "*"), list: items}
}

// hosts brings host names into the form they are compared in.
func hosts(items []string) []string {
	out := make([]string, len(items))
	for i, s := range items {
		out[i] = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	}
	return out
}
