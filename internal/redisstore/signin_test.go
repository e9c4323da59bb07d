package redisstore_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pinboard/internal/ownership"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// as is a server's URL with user and password.
func as(srv *redistest.Server, user, password string) string {
	return strings.Replace(srv.URL(), "//", "//"+url.PathEscape(user)+":"+url.PathEscape(password)+"@", 1)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// needed is what docs/operating.md tells operators to give a user.
func needed(t *testing.T) []string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "ACL SETUSER pinboard reset on >PASSWORD ")
	line, _, ok := strings.Cut(rest, "\n")
	if !ok {
		t.Fatal("the guide has lost its ACL line")
	}
	return strings.Fields(line)
}

// The user of the guide can do everything; without any one of its permissions
// the node says which is missing, be it a command or the pattern of the keys.
func TestAMissingPermissionIsNamed(t *testing.T) {
	srv := redistest.Start(t)
	rules := needed(t)
	srv.AddUser("whole", "p", rules...)
	s := open(t, as(srv, "whole", "p"))
	if err := all(s, furnish); err != nil {
		t.Fatal(err)
	}
	peek(t, s, ownership.Hint{Key: key("old"), Session: sessionA})
	for _, c := range []struct {
		name, lacks string
		change      []string
	}{
		{"another pattern", "add ~pb{* (", []string{"resetkeys", "~pb:*"}},
		{"no pattern", "add ~pb{* (", []string{"resetkeys"}},
		{"one command", "add +set (", []string{"-set"}},
		{"several commands", "add +info +mget +hincrby (", []string{"-mget", "-hincrby", "-info"}},
		{"time", "add +time (", []string{"-time"}},
		{"scripts by hash", "add +evalsha (", []string{"-evalsha"}},
		{"scripts by text", "add +eval (", []string{"-eval"}},
		{"everything", "add +time +info +eval +evalsha +scan +get +mget +exists +hget +hmget +hgetall +lrange +set +hdel +ltrim +hset +hincrby +lpush +del (", []string{"-@all"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv.AddUser("part", "p", append(rules[:len(rules):len(rules)], c.change...)...)
			s, err := tryOpen(as(srv, "part", "p"))
			if err == nil {
				s.Close()
				t.Fatal("accepted")
			}
			if !redisstore.IsConfig(err) || !strings.Contains(err.Error(), c.lacks) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v\nwant %s", err, c.lacks)
			}
		})
	}
	srv.AddUser("other", "p", append([]string{"resetkeys", "~my\\*fleet{*"}, rules[1:]...)...)
	open(t, as(srv, "other", "p"), func(o *redisstore.Options) { o.Prefix = "my*fleet" })
	_, err := tryOpen(as(srv, "other", "p"), func(o *redisstore.Options) { o.Prefix = "my?fleet" })
	if err == nil || !strings.Contains(err.Error(), `add ~my\?fleet{* (`) {
		t.Errorf("another prefix: %v", err)
	}
}

// What the servers of before version 7 say is understood as well.
func TestPermissionTexts(t *testing.T) {
	for text, want := range map[string]string{
		"NOPERM this user has no permissions to access one of the keys used as arguments":                            "~pb{*",
		"NOPERM No permissions to access a key":                                                                      "~pb{*",
		"NOPERM this user has no permissions to run the 'set' command or its subcommand":                             "+set",
		"NOPERM User u has no permissions to run the 'config|get' command":                                           "+config|get",
		"ERR The user executing the script can't run this command or subcommand":                                     "+evalsha",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments": "~pb{*",
		"ERR ACL failure in script: User u has no permissions to run the 'time' command script: x":                   "+time",
		"ERR unknown command 'x'":                  "",
		"READONLY You can't write":                 "",
		"WRONGPASS invalid username-password pair": "",
	} {
		if got := redisstore.Lacks("pb", text, "evalsha"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// A rotation: the store runs while password, URL or both change on the server
// and in the files. Connections that die are made again with what is there now.
func TestRotationNeedsNoRestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		option func(dir string, srv *redistest.Server) func(*redisstore.Options)
		rotate func(t *testing.T, dir string, srv *redistest.Server)
	}{
		{"of a password file", func(dir string, srv *redistest.Server) func(*redisstore.Options) {
			return func(o *redisstore.Options) {
				o.URL = srv.URL() + "?user=u&password_file=" + url.QueryEscape(dir+"/password")
			}
		}, func(t *testing.T, dir string, srv *redistest.Server) { write(t, dir+"/password", "second\n") }},
		{"of the URL's file", func(dir string, srv *redistest.Server) func(*redisstore.Options) {
			return func(o *redisstore.Options) { o.URL, o.URLFile = "", dir+"/url" }
		}, func(t *testing.T, dir string, srv *redistest.Server) {
			write(t, dir+"/url", as(srv, "u", "second")+"\n")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv, dir := redistest.Start(t), t.TempDir()
			srv.AddUser("u", "first", "~*", "+@all")
			write(t, dir+"/password", "first")
			write(t, dir+"/url", as(srv, "u", "first"))
			s := open(t, "", c.option(dir, srv))
			update(t, s, furnish)
			peek(t, s, ownership.Hint{Key: key("old"), Session: sessionA})
			srv.AddUser("u", "second", "~*", "+@all")
			srv.Disconnect()
			if err := s.Update(context.Background(), 0, rows("old"), nothing); !errors.Is(err, redisstore.ErrUnavailable) {
				t.Fatalf("the old password still opens: %v", err)
			}
			c.rotate(t, dir, srv)
			works(t, srv, s)
		})
	}
}

// The default user's password is rotated by CONFIG SET.
func TestRotationOfRequirepass(t *testing.T) {
	t.Parallel()
	srv, file := redistest.Start(t), filepath.Join(t.TempDir(), "password")
	rotate := func(password string) {
		srv.Do("CONFIG", "SET", "requirepass", password)
		srv.Auth = []string{password}
		write(t, file, password)
	}
	rotate("first")
	s := open(t, srv.URL()+"?password_file="+url.QueryEscape(file))
	update(t, s, furnish)
	rotate("second")
	srv.Disconnect()
	works(t, srv, s)
}

// works waits until updates and hits do.
func works(t *testing.T, srv *redistest.Server, s *redisstore.Store) {
	t.Helper()
	srv.Await("updates", func() bool { return s.Update(context.Background(), 0, rows("old"), nothing) == nil })
	srv.Await("hits", func() bool {
		_, ok, err := s.Peek(context.Background(), 0, ownership.Hint{Key: key("old"), Session: sessionA})
		return ok && err == nil
	})
}

// Servers that ask for a certificate get it, and a new authority with new
// certificates needs no restart.
func TestClientCertificatesAndTheirRotation(t *testing.T) {
	t.Parallel()
	srv, keys := redistest.StartMutualTLS(t)
	u := srv.URL() + "?ca=" + url.QueryEscape(keys.CA)
	if s, err := tryOpen(u); err == nil {
		s.Close()
		t.Fatal("no certificate was asked for: the test shows nothing")
	}
	s := open(t, u+"&cert="+url.QueryEscape(keys.Cert)+"&key="+url.QueryEscape(keys.Key))
	update(t, s, furnish)
	peek(t, s, ownership.Hint{Key: key("old"), Session: sessionA})
	keys.Rotate()
	srv.Disconnect()
	works(t, srv, s)
}

// Sentinels speak TLS as the servers do, with the same certificates.
func TestSentinelsOverTLS(t *testing.T) {
	t.Parallel()
	srv, keys := redistest.StartMutualTLS(t)
	sent := redistest.StartTLSSentinels(t, 1, srv, keys)
	u := sent.URL() + "&ca=" + url.QueryEscape(keys.CA)
	if s, err := tryOpen(u); err == nil {
		s.Close()
		t.Fatal("no certificate was asked for: the test shows nothing")
	}
	s := open(t, u+"&cert="+url.QueryEscape(keys.Cert)+"&key="+url.QueryEscape(keys.Key))
	update(t, s, furnish)
	peek(t, s, ownership.Hint{Key: key("old"), Session: sessionA})
}

// Certificate and key may stand in one file; the name to expect is another.
func TestCombinedCertificateAndServerName(t *testing.T) {
	t.Parallel()
	srv, keys := redistest.StartMutualTLS(t)
	both := filepath.Join(t.TempDir(), "both.pem")
	cert, err1 := os.ReadFile(keys.Cert)
	key, err2 := os.ReadFile(keys.Key)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	write(t, both, string(cert)+string(key))
	u := srv.URL() + "?ca=" + url.QueryEscape(keys.CA) + "&cert=" + url.QueryEscape(both)
	update(t, open(t, u+"&servername=localhost"), furnish)
	if s, err := tryOpen(u + "&servername=elsewhere"); err == nil {
		s.Close()
		t.Error("a server of another name was believed")
	}
}

// Sentinels have users of their own, and their password rotates too.
func TestSentinelCredentials(t *testing.T) {
	t.Parallel()
	srv, dir := redistest.Start(t), t.TempDir()
	srv.AddUser("data", "d", "~*", "+@all")
	sent := redistest.StartLockedSentinels(t, 1, srv, 0, "watch", "first")
	u := strings.Replace(sent.URL(), "//", "//data:d@", 1)
	for _, wrong := range []string{"", "&sentinel_user=watch&sentinel_password=nope"} {
		_, err := tryOpen(u + wrong)
		if !redisstore.IsConfig(err) || !strings.Contains(err.Error(), "a sentinel rejects the sentinel_user or sentinel_password") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	write(t, dir+"/password", "first")
	s := open(t, u+"&sentinel_user=watch&sentinel_password_file="+url.QueryEscape(dir+"/password"))
	update(t, s, furnish)
	sent.Nodes[0].Do("ACL", "SETUSER", "watch", "resetpass", ">second")
	sent.Nodes[0].Auth = []string{"watch", "second"}
	sent.Nodes[0].Disconnect()
	write(t, dir+"/password", "second")
	sent.Nodes[0].Await("the sentinel is asked again", func() bool { return s.Refresh() == nil })
}

// A password that comes from a file may be on its way: a node that starts
// meanwhile waits for it. One that was typed in is wrong for good.
func TestARejectedPasswordFromAFileIsWaitedFor(t *testing.T) {
	t.Parallel()
	srv, file := redistest.Start(t), filepath.Join(t.TempDir(), "password")
	srv.AddUser("u", "right", "~*", "+@all")
	write(t, file, "early")
	_, err := tryOpen(srv.URL() + "?user=u&password_file=" + url.QueryEscape(file))
	if redisstore.IsConfig(err) || !errors.Is(err, redisstore.ErrUnavailable) || !strings.Contains(err.Error(), "rejects the user or password") {
		t.Errorf("from a file: %v", err)
	}
	if _, err := tryOpen(as(srv, "u", "early")); !redisstore.IsConfig(err) {
		t.Errorf("typed in: %v", err)
	}
}

// What stands in the files while they are changed, or by mistake, is not used:
// what was good goes on, and the operator is told once.
func TestUnusableFilesChangeNothing(t *testing.T) {
	t.Parallel()
	srv, other, file := redistest.Start(t), redistest.Start(t), filepath.Join(t.TempDir(), "url")
	srv.AddUser("u", "p", "~*", "+@all")
	write(t, file, as(srv, "u", "p"))
	var mu sync.Mutex
	var said []string
	s := open(t, "", func(o *redisstore.Options) {
		o.URL, o.URLFile = "", file
		o.Warn = func(text string) { mu.Lock(); said = append(said, text); mu.Unlock() }
	})
	update(t, s, furnish)
	for _, c := range []struct{ text, says string }{
		{"", "store URL: want"},
		{"redis://u:p/x@h", "percent-encode"},
		{as(other, "u", "p"), "names another store"},
		{as(srv, "u", "p") + "/1", "names another store"},
		{strings.Repeat("x", 1<<15), "larger than"},
	} {
		write(t, file, c.text)
		srv.Disconnect()
		works(t, srv, s)
		srv.Disconnect()
		works(t, srv, s)
		mu.Lock()
		if len(said) != 1 || !strings.Contains(said[0], c.says) || strings.Contains(said[0], "u:p") {
			t.Errorf("%.40q: said %q, want once %q", c.text, said, c.says)
		}
		said = nil
		mu.Unlock()
		write(t, file, as(srv, "u", "p"))
		srv.Disconnect()
		works(t, srv, s)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	srv.Disconnect()
	works(t, srv, s)
	if other.Info("keyspace", "db0") != "" {
		t.Error("the store of the changed file was written to")
	}
}

// At the start a file that cannot be used ends it, with one line.
func TestUnusableFilesAtTheStart(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/empty", "\n")
	write(t, dir+"/junk", "x")
	for _, c := range []struct{ url, file, says string }{
		{"redis://h?password_file=" + dir + "/none", "", "password_file: open"},
		{"redis://h?password_file=" + dir + "/empty", "", "is empty"},
		{"redis+sentinel://h?master=m&sentinel_password_file=" + dir + "/none", "", "sentinel_password_file: open"},
		{"rediss://h?ca=" + dir + "/none", "", "ca: open"},
		{"rediss://h?ca=" + dir + "/junk", "", "ca: no certificate in"},
		{"rediss://h?cert=" + dir + "/junk", "", "no PEM"},
		{"", dir + "/none", "store URL: open"},
		{"", dir + "/junk", "store URL: want"},
		{"redis://h", dir + "/junk", "both given"},
	} {
		err := redisstore.Check(c.url, c.file)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v, want %s", c.url, c.file, err, c.says)
		}
		if _, err := tryOpen(c.url, func(o *redisstore.Options) { o.URLFile = c.file }); !redisstore.IsConfig(err) {
			t.Errorf("%s %s: opened: %v", c.url, c.file, err)
		}
	}
}
