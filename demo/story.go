package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// The ids of the story. Nobody configured them: the first request places one.
var ids = []string{"apple", "berry", "cherry", "date", "elder", "fig", "grape", "hazel"}

// A story is the sequence of acts; each shows one promise and fails if it
// does not hold.
type story struct {
	ctx     context.Context
	say     *voice
	visitor visitor
	workers map[string]*process
	placed  map[string]sight
}

// cast introduces the processes.
func (s *story) cast(python string) {
	kind := "Go, our own SDK"
	if python != "" {
		kind = "Python, the client from PyPI under uvicorn"
	}
	fmt.Fprintf(s.say.out, "\n%s  one live instance per id, across a fleet\n", s.say.bold("Pinboard"))
	s.say.line("node     %s, started as pinboard dev, leases of %v", s.visitor.base, lease)
	s.say.line("workers  %s and %s (%s), each registered by itself",
		s.say.worker("anna"), s.say.worker("bert"), kind)
}

func (s *story) spread() error {
	s.say.title("The first request places an id", "ids spread over both workers; every placement has an epoch")
	s.placed = map[string]sight{}
	by := map[string]int{}
	for _, id := range ids {
		seen, err := s.visitor.increment(s.ctx, id)
		if err != nil {
			return err
		}
		s.placed[id] = seen
		by[seen.Worker]++
		s.say.line("%-7s →  %s  epoch %s", id, s.say.worker(seen.Worker), seen.Epoch)
	}
	if by["anna"] == 0 || by["bert"] == 0 {
		return fmt.Errorf("all ids on one worker: %v", by)
	}
	return nil
}

func (s *story) sticky() error {
	id := ids[0]
	s.say.title("An id stays where it is", "same worker, same epoch, same memory, whoever asks")
	for range 4 {
		seen, err := s.visitor.increment(s.ctx, id)
		if err != nil {
			return err
		}
		if seen.Worker != s.placed[id].Worker || seen.Epoch != s.placed[id].Epoch {
			return fmt.Errorf("%s moved from %+v to %+v", id, s.placed[id], seen)
		}
		s.say.line("POST /counters/%s/increment  →  %s  count %d  epoch %s",
			id, s.say.worker(seen.Worker), seen.Count, seen.Epoch)
	}
	return nil
}

func (s *story) events() error {
	s.say.title("Streams go through as they come", "server-sent events, each at the moment it was sent")
	began, n := time.Now(), 0
	err := s.visitor.events(s.ctx, ids[0], func(data string) {
		n++
		s.say.line("%4d ms  %s", time.Since(began).Milliseconds(), data)
	})
	if err == nil && n == 0 {
		err = fmt.Errorf("the stream was empty")
	}
	return err
}

func (s *story) socket() error {
	s.say.title("And a WebSocket", "the same object again: it goes on counting")
	return s.visitor.talk(s.ctx, ids[0], []string{"hello", "goodbye"}, func(word, answer string) {
		s.say.line("%-8s →  %s", word, answer)
	})
}

func (s *story) crash() error {
	victim, heir := "anna", "bert"
	s.say.title("A worker crashes", "its ids come back elsewhere: after its lease, never before, at a higher epoch")
	s.workers[victim].kill()
	began := time.Now()
	s.say.line("kill -9 %s  (%s)", s.say.worker(victim), strings.Join(s.owned(victim), ", "))
	away := true
	for _, id := range s.owned(victim) {
		seen, err := s.visitor.await(s.ctx, id, func(seen sight) {
			s.say.countdown(lease-time.Since(began), lease, fmt.Sprintf("%s: %d %s", id, seen.Status, seen.Refused))
		})
		s.say.over()
		if err != nil {
			return err
		}
		if away {
			s.say.line("away for %.1f s", time.Since(began).Seconds())
			away = false
		}
		if seen.Worker != heir || !later(seen.Epoch, s.placed[id].Epoch) {
			return fmt.Errorf("%s came back as %+v, was %+v", id, seen, s.placed[id])
		}
		s.say.line("%-7s →  %s  epoch %s  was %s", id, s.say.worker(seen.Worker), seen.Epoch, s.placed[id].Epoch)
	}
	return nil
}

// owned lists the ids a worker answered for.
func (s *story) owned(worker string) []string {
	var owned []string
	for _, id := range ids {
		if s.placed[id].Worker == worker {
			owned = append(owned, id)
		}
	}
	return owned
}

// later compares epochs, which are decimal strings below 2^63.
func later(a, b string) bool {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	return errX == nil && errY == nil && x > y
}

// byHand prints how to repeat all this without the story.
func (s *story) byHand(python string) {
	worker := "bin/pinboard-demo-counters"
	if python != "" {
		worker = python + " demo/counters/counters.py"
	}
	fmt.Fprintf(s.say.out, "\n%s\n", s.say.bold("By hand"))
	for _, command := range []string{
		"export PINBOARD_TOKEN=secret PINBOARD_URL=http://127.0.0.1:8080 PINBOARD_LEASE_TTL_MS=8000",
		"bin/pinboard dev &",
		"WORKER_NAME=anna " + worker + " &",
		"WORKER_NAME=bert " + worker + " &",
		"curl -X POST 127.0.0.1:8080/counters/apple/increment",
		"curl -N 127.0.0.1:8080/counters/apple/events",
		"curl -H 'Authorization: Bearer secret' 127.0.0.1:8080/registry/workers",
		"kill %3   # and ask again",
	} {
		s.say.line("%s", command)
	}
	fmt.Fprintln(os.Stdout)
}
