package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// A visitor is a client of the node: it knows ids, not workers.
type visitor struct{ base string }

// A sight is what an instance said of itself, or why nobody answered.
type sight struct {
	Worker  string `json:"worker"`
	Count   int    `json:"count"`
	Epoch   string `json:"epoch"`
	Refused string `json:"error"`  // Pinboard's words
	Detail  string `json:"detail"` // the worker's
	Status  int    `json:"-"`
}

// look asks the instance once.
func (v visitor) look(ctx context.Context, method, id, what string) (sight, error) {
	req, err := http.NewRequestWithContext(ctx, method, v.base+"/counters/"+id+"/"+what, nil)
	if err != nil {
		return sight{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return sight{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return sight{}, err
	}
	seen := sight{Status: resp.StatusCode}
	if json.Unmarshal(body, &seen) != nil {
		seen.Refused = strings.TrimSpace(string(body))
	}
	seen.Refused = cmp.Or(seen.Refused, seen.Detail)
	return seen, nil
}

// increment counts once and insists on an answer of the instance.
func (v visitor) increment(ctx context.Context, id string) (sight, error) {
	seen, err := v.look(ctx, http.MethodPost, id, "increment")
	if err == nil && seen.Status != http.StatusOK {
		err = fmt.Errorf("POST /counters/%s/increment: %d %s", id, seen.Status, seen.Refused)
	}
	return seen, err
}

// await repeats a refused request until the instance answers; each refusal
// goes to refused, which sees how often the visitor came back.
func (v visitor) await(ctx context.Context, id string, refused func(sight)) (sight, error) {
	deadline := time.Now().Add(4 * lease)
	for {
		seen, err := v.look(ctx, http.MethodGet, id, "value")
		if err != nil || seen.Status == http.StatusOK {
			return seen, err
		}
		if time.Now().After(deadline) {
			return seen, fmt.Errorf("/counters/%s is still refused: %d %s", id, seen.Status, seen.Refused)
		}
		refused(seen)
		select {
		case <-ctx.Done():
			return seen, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// events calls each for every event of an SSE stream, as it arrives.
func (v visitor) events(ctx context.Context, id string, each func(string)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+"/counters/"+id+"/events", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET events: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			each(data)
		}
	}
	return lines.Err()
}

// talk says words over a WebSocket and hands every answer to each.
func (v visitor) talk(ctx context.Context, id string, words []string, each func(word, answer string)) error {
	conn, _, err := websocket.Dial(ctx, v.base+"/counters/"+id+"/socket", nil)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	for _, word := range words {
		if err := conn.Write(ctx, websocket.MessageText, []byte(word)); err != nil {
			return err
		}
		_, answer, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		each(word, string(answer))
	}
	return conn.Close(websocket.StatusNormalClosure, "")
}
