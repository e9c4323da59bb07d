package upstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// A Member keeps one session with one Pinboard: it registers, proves its URL
// and beats until its context ends, and registers again when told to.
type Member struct {
	Pinboard   string // base URL
	Token      string
	Advertise  string
	Namespaces []string
	Beat       time.Duration

	client, secret string
	session        string

	mu     sync.Mutex
	values map[string]string // challenge -> value of the calls under way
}

// NewMember is a process of its own to the Pinboard it will speak to.
func NewMember(pinboard, token, advertise string, namespaces ...string) *Member {
	return &Member{
		Pinboard: pinboard, Token: token, Advertise: advertise, Namespaces: namespaces, Beat: 3 * time.Second,
		client: random(16), secret: random(32), values: map[string]string{},
	}
}

// Challenge is the answer to a probe meant for this member.
func (m *Member) Challenge(challenge, secret string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[challenge]
	return v, ok && secret == m.secret
}

// Run keeps the session until ctx ends.
func (m *Member) Run(ctx context.Context) {
	retry := min(m.Beat, 500*time.Millisecond)
	for ctx.Err() == nil {
		pause := m.Beat
		if m.session == "" {
			if m.register(ctx) != nil {
				pause = retry
			}
		} else {
			m.beat(ctx)
			if m.session == "" {
				continue
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

type answer struct {
	SessionID  string `json:"sessionId"`
	Reregister bool   `json:"reregister"`
}

func (m *Member) register(ctx context.Context) error {
	a, status, err := m.post(ctx, "register", map[string]any{
		"clientId": m.client, "secret": m.secret, "namespaces": m.Namespaces,
		"advertiseUrl": m.Advertise, "headroom": 1024, "draining": false,
	})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("register: status %d", status)
	}
	if err == nil {
		m.session = a.SessionID
	}
	return err
}

// beat renews the lease; a lost session is forgotten. Any other failure is
// left to the next beat.
func (m *Member) beat(ctx context.Context) {
	a, status, err := m.post(ctx, "heartbeat", map[string]any{"sessionId": m.session, "headroom": 1024, "draining": false})
	if err == nil && status != http.StatusOK && a.Reregister {
		m.session = ""
	}
}

// post makes one call with a fresh challenge pair that is answered while the
// call is open.
func (m *Member) post(ctx context.Context, call string, body map[string]any) (answer, int, error) {
	challenge, value := random(16), random(16)
	m.mu.Lock()
	m.values[challenge] = value
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.values, challenge)
		m.mu.Unlock()
	}()
	body["challenge"], body["challengeValue"] = challenge, value
	raw, err := json.Marshal(body)
	if err != nil {
		return answer{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Pinboard+"/registry/"+call, bytes.NewReader(raw))
	if err != nil {
		return answer{}, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+m.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, 0, err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return answer{}, 0, err
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil && resp.StatusCode == http.StatusOK {
		return answer{}, 0, err
	}
	return a, resp.StatusCode, nil
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
