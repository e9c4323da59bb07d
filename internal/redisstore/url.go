package redisstore

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A target is a parsed store URL. Files it names are not read yet.
type target struct {
	addrs    []string
	cluster  bool
	master   string // sentinel: name of the primary
	db       int
	login    account // on the servers that hold the data
	watchers account // on the sentinels
	tls      bool
	files    tlsFiles
}

// An account is a user with a password, or with the file that holds it.
type account struct{ user, password, passwordFile string }

// tlsFiles are the paths of PEM files and the name to expect of a server.
type tlsFiles struct{ ca, cert, key, servername string }

// Forms lists the schemes of a store URL, for an operator's line.
const Forms = "redis://, rediss:// (TLS), redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster://"

// ParseURL reports what is wrong with a store URL. It reads no file and quotes
// nothing of what stands between "://" and the options: a password that is not
// percent-encoded can be any part of that.
func ParseURL(s string) error {
	_, err := parseURL(s)
	return err
}

func parseURL(s string) (*target, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return nil, errors.New("store URL: want " + Forms)
	}
	t := &target{}
	kind, err := t.scheme(scheme)
	if err != nil {
		return nil, err
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	err = t.parts(kind, rest[:end], rest[end:])
	if err != nil && strings.Contains(rest[end:], "@") {
		return nil, errors.New("store URL: percent-encode / ? # and @ in user, password and options (%2F %3F %23 %40)")
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// scheme reads the part before "://": redis or rediss, and what kind of store
// it is, in the spellings of this and of other tools.
func (t *target) scheme(s string) (kind string, err error) {
	base, kind, _ := strings.Cut(strings.Replace(strings.ToLower(s), "-", "+", 1), "+")
	switch base {
	case "rediss", "valkeys":
		t.tls = true
	case "redis", "valkey":
	default:
		kind = "?"
	}
	switch kind {
	case "", "sentinel", "cluster":
		t.cluster = kind == "cluster"
		return kind, nil
	}
	return "", errors.New("store URL: unknown scheme" + quoted(s) + "; want " + Forms)
}

// quoted is s in quotes if it can be nothing but a plain word.
func quoted(s string) string {
	if !plainWord.MatchString(s) {
		return ""
	}
	return fmt.Sprintf(" %q", s)
}

var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+.-]{0,31}$`)

// parts reads everything behind "://": the authority, and path, options and
// fragment with the character that begins them.
func (t *target) parts(kind, authority, rest string) error {
	rest, fragment, _ := strings.Cut(rest, "#")
	path, query, _ := strings.Cut(rest, "?")
	if err := t.authority(authority, kind == "sentinel"); err != nil {
		return err
	}
	if kind == "" && len(t.addrs) > 1 {
		return errors.New("store URL: several servers need redis+sentinel:// or redis+cluster://")
	}
	o := options{kind: kind, tls: t.tls, set: map[string]string{}}
	if err := o.path(strings.Trim(path, "/"), fragment); err != nil {
		return err
	}
	if err := o.query(query); err != nil {
		return err
	}
	return t.take(kind, o.set)
}

func (t *target) authority(s string, sentinel bool) error {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		info := s[:i]
		if strings.Contains(info, "@") && strings.Contains(info, ",") {
			return errors.New("store URL: user and password stand once, before the first server")
		}
		user, password, _ := strings.Cut(info, ":")
		var err1, err2 error
		t.login.user, err1 = url.PathUnescape(user)
		t.login.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return errors.New("store URL: user or password is not percent-encoded")
		}
		s = s[i+1:]
	}
	port := "6379"
	if sentinel {
		port = "26379"
	}
	for i, a := range strings.Split(s, ",") {
		host, p, err := net.SplitHostPort(a)
		if err != nil {
			host, p = strings.TrimSuffix(strings.TrimPrefix(a, "["), "]"), port
		}
		if n, err := strconv.Atoi(p); !hostName(host) || err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("store URL: server %d is not host:port (a user or password ends with @)", i+1)
		}
		t.addrs = append(t.addrs, net.JoinHostPort(host, p))
	}
	return nil
}

var nameOfHost = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func hostName(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || nameOfHost.MatchString(s)
}

// take moves the options where they belong and judges them together.
func (t *target) take(kind string, set map[string]string) error {
	if db, ok := set["db"]; ok {
		n, err := strconv.Atoi(db)
		switch {
		case err != nil || n < 0:
			return errors.New("store URL: the database is not a number")
		case t.cluster && n != 0:
			return errors.New("store URL: a cluster has only database 0")
		}
		t.db = n
	}
	for name, where := range map[string]*string{
		"user": &t.login.user, "password": &t.login.password, "password_file": &t.login.passwordFile,
		"sentinel_user": &t.watchers.user, "sentinel_password": &t.watchers.password, "sentinel_password_file": &t.watchers.passwordFile,
		"ca": &t.files.ca, "cert": &t.files.cert, "key": &t.files.key, "servername": &t.files.servername, "master": &t.master,
	} {
		v, ok := set[name]
		switch {
		case ok && v == "":
			return fmt.Errorf("store URL: option %s is empty", name)
		case ok && *where != "":
			return fmt.Errorf("store URL: the %s is given twice", name)
		case ok:
			*where = v
		}
	}
	switch l, w := t.login, t.watchers; {
	case l.password != "" && l.passwordFile != "", w.password != "" && w.passwordFile != "":
		return errors.New("store URL: a password and a file for it are both given")
	case l.user != "" && l.password == "" && l.passwordFile == "":
		return errors.New("store URL: a user without a password (want user:password@, :password@, or ?password_file=)")
	case w.user != "" && w.password == "" && w.passwordFile == "":
		return errors.New("store URL: a sentinel_user without a sentinel_password")
	case t.files.key != "" && t.files.cert == "":
		return errors.New("store URL: a key without a cert")
	case kind == "sentinel" && t.master == "":
		return errors.New("store URL: redis+sentinel:// needs ?master=NAME, the name that the sentinels watch")
	}
	return nil
}

// options are those of one URL by their names here.
type options struct {
	kind string
	tls  bool
	set  map[string]string
}

// Options by who may have them, as documented.
var (
	anyOptions      = []string{"db", "user", "password", "password_file"}
	sentinelOptions = []string{"master", "sentinel_user", "sentinel_password", "sentinel_password_file"}
	tlsOptions      = []string{"ca", "cert", "key", "servername"}
)

// spellings leads from what other tools call an option to its name here. Case,
// "_" and "-" are not compared.
var spellings = func() map[string]string {
	m := map[string]string{}
	for name, others := range map[string]string{
		"db": "database", "user": "username", "password": "", "password_file": "",
		"master":        "mastername masterset mastergroup sentinelmaster sentinelmasterid sentinelmastername servicename",
		"sentinel_user": "sentinelusername", "sentinel_password": "", "sentinel_password_file": "",
		"ca":         "cafile cacert cacerts sslcacerts sslca tlsca tlscafile tlscacert sslrootcert",
		"cert":       "certfile clientcert sslcertfile sslcert tlscert tlscertfile",
		"key":        "keyfile clientkey sslkeyfile sslkey tlskey tlskeyfile",
		"servername": "sni tlsservername sslservername",
	} {
		m[squash(name)] = name
		for other := range strings.FieldsSeq(others) {
			m[other] = name
		}
	}
	return m
}()

func squash(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// path reads /DB, and for sentinels /NAME, /NAME/DB and #NAME too.
func (o *options) path(path, fragment string) error {
	words := strings.Split(path, "/")
	if path == "" {
		words = nil
	}
	_, notNumber := strconv.Atoi(path)
	switch {
	case fragment != "" && o.kind != "sentinel":
		return errors.New("store URL: nothing can follow #")
	case fragment != "":
		o.set["master"] = fragment
	case o.kind == "sentinel" && len(words) > 0 && notNumber != nil:
		name, err := url.PathUnescape(words[0])
		if err != nil {
			return errors.New("store URL: the name of the primary is not percent-encoded")
		}
		o.set["master"], words = name, words[1:]
	}
	switch len(words) {
	case 0:
	case 1:
		o.set["db"] = words[0]
	default:
		return errors.New("store URL: the database is not a number")
	}
	return nil
}

func (o *options) query(query string) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("store URL: the options are not NAME=VALUE joined by &, percent-encoded")
	}
	for _, given := range slices.Sorted(maps.Keys(q)) {
		name := spellings[squash(given)]
		switch {
		case name == "":
			return fmt.Errorf("store URL: unknown option%s; known: %s", quoted(given), strings.Join(o.known(), ", "))
		case o.kind != "sentinel" && slices.Contains(sentinelOptions, name):
			return fmt.Errorf("store URL: option %s belongs to redis+sentinel://", name)
		case !o.tls && slices.Contains(tlsOptions, name):
			return fmt.Errorf("store URL: option %s belongs to TLS: rediss:// instead of redis://", name)
		}
		if _, twice := o.set[name]; twice || len(q[given]) > 1 {
			return fmt.Errorf("store URL: the %s is given twice", name)
		}
		o.set[name] = q.Get(given)
	}
	return nil
}

// known are the options that this scheme takes.
func (o *options) known() []string {
	list := slices.Clone(anyOptions)
	if o.kind == "sentinel" {
		list = append(list, sentinelOptions...)
	}
	if o.tls {
		return append(list, tlsOptions...)
	}
	return append(list, "with rediss:// also "+strings.Join(tlsOptions, ", "))
}
