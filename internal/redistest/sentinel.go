package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// Sentinels watch one primary under the name "pinboard".
type Sentinels struct {
	Nodes []*Server
}

// StartSentinels runs n sentinels (majority decides) over primary and waits
// until they know each other and replicas of it.
func StartSentinels(t testing.TB, n int, primary *Server, replicas int) *Sentinels {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	s := &Sentinels{}
	for i := 0; i < n; i++ {
		node := &Server{t: t, binary: "redis-server", dir: t.TempDir(), Addr: FreeAddr(t)}
		_, own, _ := net.SplitHostPort(node.Addr)
		node.configure("sentinel.conf", []string{
			"port " + own, "bind 127.0.0.1", "dir " + node.dir, "protected-mode no",
			fmt.Sprintf("sentinel monitor pinboard %s %s %d", host, port, n/2+1),
			"sentinel down-after-milliseconds pinboard 500",
			"sentinel failover-timeout pinboard 3000",
		}, "--sentinel")
		if err := node.run(); err != nil {
			t.Fatalf("redistest: sentinel: %v", err)
		}
		t.Cleanup(node.Stop)
		s.Nodes = append(s.Nodes, node)
	}
	for _, node := range s.Nodes {
		node.Await("sentinels formed", func() bool {
			line := node.Info("sentinel", "master0")
			return strings.HasSuffix(line, fmt.Sprintf("slaves=%d,sentinels=%d", replicas, n))
		})
	}
	return s
}

// URL names all sentinels, as the store's option takes it.
func (s *Sentinels) URL() string {
	addrs := make([]string, len(s.Nodes))
	for i, n := range s.Nodes {
		addrs[i] = n.Addr
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "?master=pinboard"
}

// Primary is the address the sentinels name now.
func (s *Sentinels) Primary() string {
	v, err := s.Nodes[0].Try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "pinboard")
	list, ok := v.([]any)
	if err != nil || !ok || len(list) != 2 {
		return ""
	}
	return net.JoinHostPort(list[0].(string), list[1].(string))
}

// Failover promotes a replica now and waits until the sentinels agree.
func (s *Sentinels) Failover() {
	before := s.Primary()
	s.Nodes[0].Await("failover accepted", func() bool {
		_, err := s.Nodes[0].Try("SENTINEL", "FAILOVER", "pinboard")
		return err == nil
	})
	s.Nodes[0].Await("failover done", func() bool { a := s.Primary(); return a != "" && a != before })
}
