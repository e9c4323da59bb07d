package passport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const doc = `{"providers":[{"type":"staticToken","id":"acme","future":1,"keys":[
 {"name":"fleet","token":"old-key","scopes":["pinboard:worker"],"claims":{"pinboard":{"namespaces":["/a","/b"],"allowedBackendHosts":["w1.internal","[::1]"],"hostnames":["A.example"]}}},
 {"name":"fleet","token":"new-key","scopes":["pinboard:worker"],"claims":{"pinboard":{"namespaces":["*"],"allowedBackendHosts":["*"]}}},
 {"name":"ops","token":"ops-key","scopes":["pinboard:operator"]}]}]}`

// FC-55: what opens the door and what does not.
func TestBearer(t *testing.T) {
	p, err := New("s3cret", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		header []string
		ok     bool
	}{
		{[]string{"Bearer s3cret"}, true},
		{[]string{"bearer s3cret"}, true},
		{[]string{"BEARER s3cret"}, true},
		{[]string{"Bearer  s3cret"}, true}, // 1*SP
		{nil, false},
		{[]string{""}, false},
		{[]string{"Bearer"}, false},
		{[]string{"Bearer "}, false},
		{[]string{"Bearer   "}, false},
		{[]string{"s3cret"}, false},
		{[]string{"Basic s3cret"}, false},
		{[]string{"Basic Bearer s3cret"}, false},
		{[]string{"Bearer\ts3cret"}, false},
		{[]string{"Bearers3cret"}, false},
		{[]string{"Bearer s3cret "}, false},
		{[]string{"Bearer s3cret,"}, false},
		{[]string{"Bearer s3crets"}, false},
		{[]string{"Bearer s3cre"}, false},
		{[]string{"Bearer S3CRET"}, false},
		{[]string{"Bearer \x00"}, false},
		{[]string{"Bearer s3cret\x00"}, false},
		{[]string{"Bearer " + strings.Repeat("x", 1<<20)}, false},
		{[]string{"Bearer s3cret", "Bearer s3cret"}, false},
		{[]string{"Bearer wrong", "Bearer s3cret"}, false},
	} {
		if _, ok := p.Authenticate(c.header); ok != c.ok {
			t.Errorf("%.60q: %v", c.header, ok)
		}
	}
}

func TestSharedTokenMayDoEverything(t *testing.T) {
	p, _ := New("s3cret", "")
	who, _ := p.Authenticate([]string{"Bearer s3cret"})
	if !who.May(ScopeWorker) || !who.May(ScopeOperator) || !who.Namespace("/x") || !who.Hostname("h") || !who.Backend("10.0.0.1") {
		t.Errorf("%+v", who)
	}
}

func TestDocument(t *testing.T) {
	p, err := New("", doc)
	if err != nil {
		t.Fatal(err)
	}
	old, _ := p.Authenticate([]string{"Bearer old-key"})
	fresh, _ := p.Authenticate([]string{"Bearer new-key"})
	ops, _ := p.Authenticate([]string{"Bearer ops-key"})
	if old == nil || fresh == nil || ops == nil {
		t.Fatal("a key is missing")
	}
	if old.Owner != "acme/fleet" || fresh.Owner != old.Owner || ops.Owner != "acme/ops" {
		t.Errorf("owners %q %q %q: rotated keys share sessions", old.Owner, fresh.Owner, ops.Owner)
	}
	for name, c := range map[string]struct{ got, want bool }{
		"worker scope":                     {old.May(ScopeWorker), true},
		"worker does not operate":          {old.May(ScopeOperator), false},
		"operator does not work":           {ops.May(ScopeWorker), false},
		"listed namespace":                 {old.Namespace("/a"), true},
		"other namespace":                  {old.Namespace("/c"), false},
		"prefix is no match":               {old.Namespace("/a/x"), false},
		"star":                             {fresh.Namespace("/c"), true},
		"absent namespaces are none":       {ops.Namespace("/a"), false},
		"listed host":                      {old.Backend("W1.internal"), true},
		"bracketed literal":                {old.Backend("::1"), true},
		"other host":                       {old.Backend("evil"), false},
		"absent hosts are none":            {ops.Backend("w1.internal"), false},
		"listed hostname":                  {old.Hostname("a.example"), true},
		"other hostname":                   {old.Hostname("b.example"), false},
		"absent hostnames are all of them": {fresh.Hostname("b.example"), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", name, c.got)
		}
	}
}

// A bad configuration is one line that says where and never shows a token.
func TestRefused(t *testing.T) {
	k := func(change func(string) string) string { return change(doc) }
	swap := func(old, new string) string {
		return k(func(s string) string { return strings.Replace(s, old, new, 1) })
	}
	for _, c := range []struct{ token, doc, want string }{
		{"", "", "PINBOARD_TOKEN: required"},
		{"   ", "", "PINBOARD_TOKEN: must not be blank"},
		{" ", doc, "PINBOARD_TOKEN: must not be blank"},
		{"\t\n", "", "PINBOARD_TOKEN: must not be blank"},
		{"s3cret\n", "", "PINBOARD_TOKEN: must be visible ASCII"},
		{"", "{}", "PINBOARD_TOKEN: required"},
		{"", "{", "PINBOARD_PASSPORT: not a JSON object"},
		{"", `"x"`, "PINBOARD_PASSPORT: not a JSON object"},
		{"", `{"providers":[{"type":"staticToken","id":"a","keys":[{"token":7}]}]}`, "PINBOARD_PASSPORT: providers.keys.token: wrong type"},
		{"", swap("staticToken", "saml"), `PINBOARD_PASSPORT: providers[0].type: want "staticToken" or "jwt"`},
		{"", swap(`"acme"`, `""`), "PINBOARD_PASSPORT: providers[0].id: want"},
		{"", swap(`"fleet"`, `"a/b"`), "PINBOARD_PASSPORT: providers[0].keys[0].name: want"},
		{"", swap(`"old-key"`, `"  "`), "PINBOARD_PASSPORT: providers[0].keys[0].token: must not be blank"},
		{"", swap(`"old-key"`, `"old key"`), "PINBOARD_PASSPORT: providers[0].keys[0].token: must be visible ASCII"},
		{"", swap("pinboard:worker", "pinboard:admin"), "PINBOARD_PASSPORT: providers[0].keys[0].scopes: want"},
		{"", swap("new-key", "old-key"), "PINBOARD_PASSPORT: providers[0].keys[1].token: used twice"},
		{"new-key", doc, "PINBOARD_PASSPORT: providers[0].keys[1].token: used twice"},
	} {
		_, err := New(c.token, c.doc)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.token, err, c.want)
			continue
		}
		if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "-key") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("shows a secret or breaks the line: %q", err)
		}
	}
}

// Rotation: the second key is added to the file, SIGHUP, workers move over,
// the first is removed. A bad file changes nothing.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passport.json")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one := strings.Replace(doc, "new-key", "not-yet", 1)
	write(one)
	s, err := Open("", "@"+path)
	if err != nil {
		t.Fatal(err)
	}
	opens := func(token string) bool {
		_, ok := s.Authenticate([]string{"Bearer " + token})
		return ok
	}
	if !opens("old-key") || opens("new-key") {
		t.Fatal("first file")
	}
	write(doc)
	if err := s.Reload(); err != nil || !opens("old-key") || !opens("new-key") {
		t.Fatalf("second key: %v", err)
	}
	for _, bad := range []string{"", "  \n", "{", `{"providers":[]}`} {
		write(bad)
		if err := s.Reload(); err == nil || !opens("old-key") || !opens("new-key") {
			t.Fatalf("bad file %q must keep the old passport: %v", bad, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || err.Error() != "PINBOARD_PASSPORT: no such file" || !opens("new-key") {
		t.Fatalf("missing file: %v", err)
	}
	write(strings.Replace(doc, "old-key", "retired", 1))
	if err := s.Reload(); err != nil || opens("old-key") || !opens("new-key") {
		t.Fatalf("first key removed: %v", err)
	}
	if _, err := Open("", "@"+path+".missing"); err == nil {
		t.Fatal("a missing file at start must be refused")
	}
}

// The passport in the operator's guide is one.
func TestTheGuidesPassportWorks(t *testing.T) {
	guide, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```json\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no passport in the guide")
	}
	s, err := Open("", text)
	if err != nil {
		t.Fatal(err)
	}
	chat, ok := s.Authenticate([]string{"Bearer a-long-random-text"})
	if !ok || !chat.May(ScopeWorker) || chat.May(ScopeOperator) || !chat.Namespace("/threads") || chat.Namespace("/files") ||
		!chat.Hostname("chat.example") || chat.Hostname("other.example") || !chat.Backend("10.1.2.3") || chat.Backend("10.1.2.4") {
		t.Errorf("chat: %+v", chat)
	}
	ops, ok := s.Authenticate([]string{"Bearer another-long-random-text"})
	if !ok || ops.May(ScopeWorker) || !ops.May(ScopeOperator) || !ops.Namespace("/any") || !ops.Hostname("any") {
		t.Errorf("ops: %+v", ops)
	}
}
