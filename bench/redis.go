package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// peerRows is how many rows the peers' look-up finds its ids among.
const peerRows = 100_000

// startRedis starts a Redis without persistence and gives the peers their
// rows, lease and script. Pinboard places its own ids.
func (f *Fleet) startRedis(ctx context.Context) (err error) {
	f.redis, err = startProcess(f.scratch, "redis", nil, "redis-server", "--port", strconv.Itoa(f.redisPort),
		"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", f.scratch)
	if err != nil {
		return err
	}
	if err := f.redis.await(ctx, 5*time.Second, listening(address(f.redisPort))); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	var rows bytes.Buffer
	fmt.Fprintf(&rows, "SET l:{0}:w1 \"s1 http://%s\"\r\n", f.worker)
	for i := range peerRows {
		fmt.Fprintf(&rows, "HSET p:{0}:/threads:t_%06d w w1 s s1 e %d\r\n", i, i+1)
	}
	if _, err := f.redisCLI(ctx, &rows, "--pipe"); err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join(f.peers, "node", "resolve.lua"))
	if err != nil {
		return err
	}
	f.script, err = f.redisCLI(ctx, nil, "SCRIPT", "LOAD", string(script))
	if err == nil && len(f.script) != 40 {
		err = fmt.Errorf("script not loaded: %s", f.script)
	}
	return err
}

func (f *Fleet) redisCLI(ctx context.Context, in *bytes.Buffer, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", strconv.Itoa(f.redisPort)}, args...)...)
	if in != nil {
		cmd.Stdin = in
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redis-cli %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// redisMemory is used_memory in bytes.
func (f *Fleet) redisMemory(ctx context.Context) (int64, error) {
	info, err := f.redisCLI(ctx, nil, "INFO", "memory")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, fmt.Errorf("no used_memory in %q", info)
}
