package redisstore

import (
	"reflect"
	"strings"
	"testing"
)

// Every documented form, and the spellings of other tools, mean what they say.
func TestURLForms(t *testing.T) {
	for u, want := range map[string]target{
		"redis://h":                       {addrs: []string{"h:6379"}},
		"redis://h/":                      {addrs: []string{"h:6379"}},
		"redis://h:1/2":                   {addrs: []string{"h:1"}, db: 2},
		"redis://h?db=2":                  {addrs: []string{"h:6379"}, db: 2},
		"redis://[::1]:1":                 {addrs: []string{"[::1]:1"}},
		"redis://[::1]":                   {addrs: []string{"[::1]:6379"}},
		"redis://u:p@h":                   {addrs: []string{"h:6379"}, login: account{user: "u", password: "p"}},
		"redis://:p@h":                    {addrs: []string{"h:6379"}, login: account{password: "p"}},
		"redis://u:p%40%2F%3A@h":          {addrs: []string{"h:6379"}, login: account{user: "u", password: "p@/:"}},
		"redis://u:a@b@h":                 {addrs: []string{"h:6379"}, login: account{user: "u", password: "a@b"}},
		"redis://u@h?password_file=/p":    {addrs: []string{"h:6379"}, login: account{user: "u", passwordFile: "/p"}},
		"redis://h?username=u&password=p": {addrs: []string{"h:6379"}, login: account{user: "u", password: "p"}},
		"valkey://h":                      {addrs: []string{"h:6379"}},
		"valkeys://h":                     {addrs: []string{"h:6379"}, tls: true},
		"REDISS://h":                      {addrs: []string{"h:6379"}, tls: true},
		"rediss://h?ca=/a&cert=/b&key=/c&servername=s": {addrs: []string{"h:6379"}, tls: true,
			files: tlsFiles{"/a", "/b", "/c", "s"}},
		"rediss://h?ssl_ca_certs=/a&ssl_certfile=/b&ssl_keyfile=/c&sni=s": {addrs: []string{"h:6379"}, tls: true,
			files: tlsFiles{"/a", "/b", "/c", "s"}},
		"redis+cluster://a:1,b:2":           {addrs: []string{"a:1", "b:2"}, cluster: true},
		"redis-cluster://a,b/0":             {addrs: []string{"a:6379", "b:6379"}, cluster: true},
		"rediss+cluster://a":                {addrs: []string{"a:6379"}, cluster: true, tls: true},
		"redis+sentinel://a,b:2,c?master=m": {addrs: []string{"a:26379", "b:2", "c:26379"}, master: "m"},
		"redis+sentinel://u:p@a:1/3?master=m&sentinel_user=x&sentinel_password=y": {addrs: []string{"a:1"}, master: "m", db: 3,
			login: account{user: "u", password: "p"}, watchers: account{user: "x", password: "y"}},
		"redis+sentinel://a?master=m&sentinel_username=x&sentinel_password_file=/y": {addrs: []string{"a:26379"}, master: "m",
			watchers: account{user: "x", passwordFile: "/y"}},
		"redis-sentinel://a,b/2?sentinelMasterId=m": {addrs: []string{"a:26379", "b:26379"}, master: "m", db: 2},
		"redis-sentinel://a/2#m":                    {addrs: []string{"a:26379"}, master: "m", db: 2},
		"redis+sentinel://a/my%20set/2":             {addrs: []string{"a:26379"}, master: "my set", db: 2},
		"redis+sentinel://a/m":                      {addrs: []string{"a:26379"}, master: "m"},
		"rediss+sentinel://a?master_name=m":         {addrs: []string{"a:26379"}, master: "m", tls: true},
		"rediss-sentinel://a?masterName=m":          {addrs: []string{"a:26379"}, master: "m", tls: true},
		"redis+sentinel://a?master_set=m":           {addrs: []string{"a:26379"}, master: "m"},
		"redis+sentinel://a?service_name=m":         {addrs: []string{"a:26379"}, master: "m"},
	} {
		got, err := parseURL(u)
		if err != nil {
			t.Errorf("%s: %v", u, err)
		} else if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", u, *got, want)
		}
	}
}

// What is refused is refused with one line that says what to write instead,
// and that holds nothing of user, password and host.
func TestURLRefusals(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"", Forms}, {"h:1", Forms}, {"memory", Forms},
		{"http://h", `unknown scheme "http"; want redis://`}, {"redis+x://h", Forms}, {"redis+tls://h", Forms}, {"unix:///s", Forms},
		{"redis://", "is not host:port"}, {"redis://h:x", "is not host:port"}, {"redis://h:0", "is not host:port"},
		{"redis://h:65536", "is not host:port"}, {"redis+cluster://a,", "server 2 is not host:port"},
		{"redis://h/x", "database is not a number"}, {"redis://h/-1", "database is not a number"}, {"redis://h/1/2", "database is not a number"},
		{"redis+cluster://h/1", "a cluster has only database 0"}, {"redis://a,b", "several servers need"},
		{"redis://h#m", "nothing can follow #"},
		{"redis+sentinel://h", "needs ?master=NAME"}, {"redis+sentinel://h?master=", "option master is empty"},
		{"redis+sentinel://h/m?master=n", "given twice"}, {"redis+sentinel://h?master=m&sentinelMasterId=m", "given twice"},
		{"redis://u:p@h?password=q", "given twice"}, {"redis://h/1?db=1", "given twice"}, {"redis://h?db=1&db=2", "given twice"},
		{"redis://h?master=m", "option master belongs to redis+sentinel://"}, {"redis://h?ca=x", "option ca belongs to TLS: rediss://"},
		{"redis://h?timeout=1", `unknown option "timeout"; known: db, user, password, password_file, with rediss:// also ca, cert, key, servername`},
		{"rediss+sentinel://h?master=m&ssl=1", `unknown option "ssl"; known: db, user, password, password_file, master, sentinel_user, sentinel_password, sentinel_password_file, ca, cert, key, servername`},
		{"redis://h?p%2Fss%3A=1", "unknown option; known"}, {"redis+p/ss://h", "unknown scheme; want"},
		{"redis://h?%zz", "percent-encoded"}, {"redis://u:%zz@h", "percent-encoded"},
		{"redis://u@h", "a user without a password"}, {"redis+sentinel://h?master=m&sentinel_user=u", "without a sentinel_password"},
		{"redis://:p@h?password_file=/x", "both given"}, {"rediss://h?key=/x", "a key without a cert"},
		{"redis+cluster://u:p@a,u:p@b", "once, before the first server"},
		{"redis://:pa/ss@h", "percent-encode"}, {"redis://u:12/ss@h:1", "percent-encode"}, {"redis://u:pa?ss@h", "percent-encode"},
		{"redis://u:12?ss=1@h", "percent-encode"}, {"redis://u:pa#ss@h", "percent-encode"}, {"redis://u:12#ss@h", "percent-encode"},
		{"redis+sentinel://:pa/ss@h?master=m", "percent-encode"}, {"redis://:p a@h:ss", "is not host:port"},
	} {
		err := ParseURL(c.url)
		if err == nil || !strings.HasPrefix(err.Error(), "store URL: ") || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\nwant %s", c.url, err, c.says)
			continue
		}
		for _, secret := range []string{"%zz", `":pa`, "ss@", "pa/", `"ss"`, `"pa"`, "12"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q shows %s: %v", c.url, secret, err)
			}
		}
	}
}

// Whatever the password is, as it stands or cut anywhere: no error has it.
func FuzzURLErrorsHideThePassword(f *testing.F) {
	for _, p := range []string{"pa/ss", "a?b", "#", "x&y=z", "1/2?db=3", "@", "12/34", "%", ",", "]["} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, junk string) {
		const secret = "hunter2"
		for _, u := range []string{
			"redis://:" + secret + junk + "@h", "redis://u:" + junk + secret + "@h:1/0", "redis+sentinel://u:" + junk + secret + junk + "@h?master=m",
			"rediss://u:" + secret + junk + secret + "@h/0?db=1",
		} {
			if err := ParseURL(u); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", u, err)
			}
		}
	})
}
