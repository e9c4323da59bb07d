package redistest

import (
	"bufio"
	"net"
	"testing"
	"time"
)

func TestServerLivesAndDies(t *testing.T) {
	s := Start(t, "maxmemory-policy noeviction")
	s.Do("SET", "a", "1")
	if v := s.Do("GET", "a"); v != "1" {
		t.Fatalf("got %v", v)
	}
	run := s.Info("server", "run_id")
	s.Restart()
	if v := s.Do("GET", "a"); v != nil {
		t.Fatalf("a restarted server kept %v", v)
	}
	if s.Info("server", "run_id") == run {
		t.Fatal("same run id after a restart")
	}
	s.Stop()
	if _, err := s.Try("PING"); err == nil {
		t.Fatal("a stopped server answers")
	}
}

func TestReplicaAndSentinels(t *testing.T) {
	a := Start(t)
	b := StartReplica(t, a)
	s := StartSentinels(t, 3, a, 1)
	if s.Primary() != a.Addr {
		t.Fatalf("primary %q", s.Primary())
	}
	s.Failover()
	if s.Primary() != b.Addr {
		t.Fatalf("primary after failover %q", s.Primary())
	}
}

func TestClusterMovesASlot(t *testing.T) {
	c := StartCluster(t, 3)
	slot := c.Slot("{1}")
	i := c.Owner(slot)
	j := (i + 1) % 3
	c.Nodes[i].Do("SET", "{1}x", "v")
	c.BeginMove(slot, i, j)
	if n := c.MoveKeys(slot, i, j, 10); n != 1 {
		t.Fatalf("moved %d keys", n)
	}
	c.EndMove(slot, i, j)
	if v := c.Nodes[j].Do("GET", "{1}x"); v != "v" {
		t.Fatalf("got %v", v)
	}
	if c.Owner(slot) != j {
		t.Fatal("slot did not move")
	}
}

func TestReplicatedCluster(t *testing.T) {
	c := StartReplicatedCluster(t, 1)
	if r := c.Nodes[1].Info("replication", "role"); r != "slave" {
		t.Fatalf("role %q", r)
	}
}

func TestTLSAndUser(t *testing.T) {
	s, _ := StartTLS(t)
	s.AddUser("pb", "secret", "~*", "+@all", "-info")
	if v := s.Do("AUTH", "pb", "secret"); v != "OK" {
		t.Fatalf("got %v", v)
	}
}

// Each fault, twice over one connection: was the command executed, and what
// does the client read.
func TestRelayFaults(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    Fault
		executed bool
		reads    string // "" nothing, the connection ends; "stuck" nothing, it stays
	}{
		{"pass", Pass(), true, "+OK\r\n"},
		{"cut before", CutBefore(), false, ""},
		{"cut after", CutAfter(), true, ""},
		{"cut inside", CutInside(), true, "+O"},
		{"swallow", Swallow(), true, "stuck"},
		{"hold", Hold(), false, "stuck"},
		{"inject", Inject("-LOADING x\r\n"), false, "-LOADING x\r\n"},
		{"delay command", DelayCommand(10 * time.Millisecond), true, "+OK\r\n"},
		{"delay reply", DelayReply(10 * time.Millisecond), true, "+OK\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Start(t)
			r := NewRelay(t, s.Addr)
			r.Once("SET", 1, c.fault)
			conn, err := net.Dial("tcp", r.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Write(command([]string{"SET", "k", "v"}))
			conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			b := make([]byte, 64)
			n, err := bufio.NewReader(conn).Read(b)
			got := string(b[:n])
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				got = "stuck"
			}
			if got != c.reads {
				t.Errorf("read %q, want %q", got, c.reads)
			}
			if executed := s.Do("GET", "k") == "v"; executed != c.executed {
				t.Errorf("executed %v, want %v", executed, c.executed)
			}
		})
	}
}

func TestRelayStallAndRefuse(t *testing.T) {
	s := Start(t)
	r := NewRelay(t, s.Addr)
	via := &Server{t: t, Addr: r.Addr}
	r.Refuse(true)
	if _, err := via.Try("PING"); err == nil {
		t.Fatal("refusing relay answers")
	}
	r.Refuse(false)
	r.Stall(true)
	time.AfterFunc(50*time.Millisecond, func() { r.Stall(false) })
	start := time.Now()
	if v, err := via.Try("PING"); err != nil || v != "PONG" || time.Since(start) < 40*time.Millisecond {
		t.Fatalf("%v %v after %v", v, err, time.Since(start))
	}
}
