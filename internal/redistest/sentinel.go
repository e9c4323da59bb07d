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
	return startSentinels(t, n, primary, replicas, nil, nil)
}

// StartTLSSentinels is StartSentinels over the certificates of primary's
// keyring: sentinels ask for one and show one, to the primary too.
func StartTLSSentinels(t testing.TB, n int, primary *Server, k *Keyring) *Sentinels {
	t.Helper()
	return startSentinels(t, n, primary, 0, nil, k)
}

// StartLockedSentinels is StartSentinels with a user that everybody needs,
// except in Do and Info of the nodes, which have it.
func StartLockedSentinels(t testing.TB, n int, primary *Server, replicas int, user, password string) *Sentinels {
	t.Helper()
	return startSentinels(t, n, primary, replicas, []string{user, password}, nil)
}

func startSentinels(t testing.TB, n int, primary *Server, replicas int, auth []string, k *Keyring) *Sentinels {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	var locked []string
	if auth != nil {
		locked = []string{
			fmt.Sprintf("user %s on >%s ~* &* +@all", auth[0], auth[1]), "user default off",
			"sentinel sentinel-user " + auth[0], "sentinel sentinel-pass " + auth[1],
		}
	}
	s := &Sentinels{}
	for i := 0; i < n; i++ {
		node := &Server{t: t, binary: Program(), dir: t.TempDir(), Addr: FreeAddr(t), Auth: auth}
		_, own, _ := net.SplitHostPort(node.Addr)
		listen := []string{"port " + own}
		if k != nil {
			node.CA = primary.CA
			listen = append(k.directives("yes"), "port 0", "tls-port "+own, "tls-replication yes")
		}
		node.configure("sentinel.conf", append(append(listen, []string{
			"bind 127.0.0.1", "dir " + node.dir, "protected-mode no",
			fmt.Sprintf("sentinel monitor pinboard %s %s %d", host, port, n/2+1),
			"sentinel down-after-milliseconds pinboard 500",
			"sentinel failover-timeout pinboard 3000",
		}...), locked...), "--sentinel")
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
	scheme := "redis+sentinel://"
	if s.Nodes[0].CA != nil {
		scheme = "rediss+sentinel://"
	}
	return scheme + strings.Join(addrs, ",") + "?master=pinboard"
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
