package redisstore

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// used are the commands that every server must allow this user, in forms that
// change nothing: K is a key of no meaning, which the last one removes again.
var used = [][]string{
	{"TIME"}, {"INFO", "server"}, {"EVAL", "return 1", "0"}, {"EVALSHA", strings.Repeat("0", 40), "0"}, {"SCAN", "0"},
	{"GET", "K"}, {"MGET", "K"}, {"EXISTS", "K"}, {"HGET", "K", "f"}, {"HMGET", "K", "f"}, {"HGETALL", "K"}, {"LRANGE", "K", "0", "0"},
	{"SET", "K", "x", "PX", "1000"}, {"HDEL", "K", "f"}, {"LTRIM", "K", "0", "0"},
	{"HSET", "K", "f", "x"}, {"HINCRBY", "K", "f", "1"}, {"LPUSH", "K", "x"}, {"DEL", "K"},
}

// permitted tries every command once and names all permissions that are
// missing in one line. Scripts run with the permissions of their user.
func (s *Store) permitted(ctx context.Context, n *node) error {
	key := s.keys.tags[s.topo.buckets(n)[0]] + "%p"
	var missing []string
	for _, command := range used {
		words := slices.Clone(command)
		if i := slices.Index(words, "K"); i > 0 {
			words[i] = key
		}
		_, err := n.do(ctx, words...)
		lack := s.lacks(err, words[0])
		if lack == "" && serverSays(err) == "" && err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		if lack == "" && rejected(serverSays(err)) {
			return err
		}
		if lack != "" && !slices.Contains(missing, lack) {
			missing = append(missing, lack)
		}
	}
	if len(missing) > 0 {
		return misconfigured("the store's user lacks permissions: add %s (ACL SETUSER)", strings.Join(missing, " "))
	}
	return nil
}

// Texts of servers from version 6 on, in and outside scripts.
var (
	aclRefusal  = regexp.MustCompile(`(?i)^NOPERM |ACL failure|user executing the script can't`)
	aclKeys     = regexp.MustCompile(`(?i)access (a key|one of the keys|at least one of the keys)`)
	aclCommand  = regexp.MustCompile(`run the '([^']+)' command`)
	aclPassword = regexp.MustCompile(`^(NOAUTH|WRONGPASS) |AUTH <password> called`)
)

func (s *Store) lacks(err error, command string) string {
	return lacks(s.opt.Prefix, serverSays(err), command)
}

// lacks is the ACL rule that a refusal calls for, "" if text is none: the
// pattern of our keys, or the command.
func lacks(prefix, text, command string) string {
	if !aclRefusal.MatchString(text) {
		return ""
	}
	if aclKeys.MatchString(text) {
		return "~" + globEscaper.Replace(prefix) + "{*"
	}
	if m := aclCommand.FindStringSubmatch(text); m != nil {
		command = m[1]
	}
	return "+" + strings.ToLower(command)
}

// serverSays is the text of an error reply anywhere in err.
func serverSays(err error) string {
	var e *rueidis.RedisError
	if errors.As(err, &e) && !e.IsNil() {
		return e.Error()
	}
	return ""
}

func rejected(text string) bool { return aclPassword.MatchString(text) }

// explain makes an operator's line of a missing permission or a rejected
// password; other errors stay what they are. A password that comes from a file
// may be one that is just being rotated.
func (s *Store) explain(err error) error {
	text := serverSays(err)
	who, options := "the store", "user or password"
	if errors.As(err, new(*atSentinel)) {
		who, options = "a sentinel", "sentinel_user or sentinel_password"
	}
	switch lack := s.lacks(err, "the command"); {
	case IsConfig(err) || text == "":
		return err
	case rejected(text) && s.topo.src.byFile():
		return unavailable("%s rejects the %s of its URL or of their files, which are read again", who, options)
	case rejected(text):
		return misconfigured("%s rejects the %s of its URL", who, options)
	case lack != "":
		return misconfigured("%s's user lacks permissions: add %s (ACL SETUSER)", who, lack)
	case who == "the store":
		return unavailable("%s", text)
	}
	return err
}
