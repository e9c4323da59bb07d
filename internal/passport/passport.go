// Package passport says who may do what on the control plane: it reads
// PINBOARD_TOKEN and PINBOARD_PASSPORT and turns a bearer token into a
// Principal. It owns the comparison of secrets: constant time, over digests.
package passport

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The two scopes. A worker registers, beats and releases; an operator looks
// and gives orders.
const (
	ScopeWorker   = "pinboard:worker"
	ScopeOperator = "pinboard:operator"
)

// A Principal is who a token stands for. Values are shared: never modify one.
type Principal struct {
	Owner string // provider id + "/" + key name: sessions belong to it, so rotated keys share them

	scopes     []string
	namespaces names
	hostnames  names
	backends   names
}

// May reports whether the token has the scope.
func (p *Principal) May(scope string) bool { return slices.Contains(p.scopes, scope) }

// Namespace reports whether the token may use the namespace.
func (p *Principal) Namespace(ns string) bool { return p.namespaces.has(ns) }

// Hostname reports whether the token may use the hostname.
func (p *Principal) Hostname(name string) bool { return p.hostnames.has(strings.ToLower(name)) }

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
	keys []key
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
	p := new(Passport)
	if token != "" {
		if err := checkToken(token); err != nil {
			return nil, fmt.Errorf("PINBOARD_TOKEN: %w", err)
		}
		p.keys = append(p.keys, key{sha256.Sum256([]byte(token)), &Principal{
			Owner: shared, scopes: []string{ScopeWorker, ScopeOperator},
			namespaces: everything, hostnames: everything, backends: everything,
		}})
	}
	if document != "" {
		if err := p.read(document); err != nil {
			return nil, fmt.Errorf("PINBOARD_PASSPORT: %w", err)
		}
	}
	if len(p.keys) == 0 {
		return nil, errors.New("PINBOARD_TOKEN: required (or PINBOARD_PASSPORT with at least one key)")
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
		return nil, false
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
	Providers []struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Keys []struct {
			Name   string   `json:"name"`
			Token  string   `json:"token"`
			Scopes []string `json:"scopes"`
			Claims struct {
				Pinboard struct {
					Namespaces          []string  `json:"namespaces"`
					Hostnames           *[]string `json:"hostnames"`
					AllowedBackendHosts []string  `json:"allowedBackendHosts"`
				} `json:"pinboard"`
			} `json:"claims"`
		} `json:"keys"`
	} `json:"providers"`
}

// read adds the keys of a document.
func (p *Passport) read(text string) error {
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return explain(err)
	}
	for i, provider := range doc.Providers {
		at := fmt.Sprintf("providers[%d]", i)
		if provider.Type != "staticToken" {
			return fmt.Errorf("%s.type: want \"staticToken\"", at)
		}
		if err := checkName(provider.ID); err != nil {
			return fmt.Errorf("%s.id: %w", at, err)
		}
		for j, k := range provider.Keys {
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
			claims := k.Claims.Pinboard
			principal := &Principal{
				Owner: provider.ID + "/" + k.Name, scopes: k.Scopes,
				namespaces: list(claims.Namespaces), hostnames: everything,
				backends: list(hosts(claims.AllowedBackendHosts)),
			}
			if claims.Hostnames != nil {
				principal.hostnames = list(hosts(*claims.Hostnames))
			}
			p.keys = append(p.keys, key{digest, principal})
		}
	}
	return nil
}

// explain words a JSON error without quoting the document, which holds tokens.
func explain(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s: wrong type", wrong.Field)
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
