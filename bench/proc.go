package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc CPU times: USER_HZ, 100 on every Linux port Go has.
const tick = 10 * time.Millisecond

// A stat is what the benchmark reads of /proc/PID/stat (proc(5)).
type stat struct {
	pid, parent int
	own         time.Duration // utime + stime
	reaped      time.Duration // the same of children that ended
}

func parseStat(line string) (stat, error) {
	// The command in brackets may hold anything; the fields follow its last bracket.
	end := strings.LastIndexByte(line, ')')
	open := strings.IndexByte(line, ' ')
	if end < 0 || open < 0 {
		return stat{}, fmt.Errorf("not a stat line: %q", line)
	}
	f := strings.Fields(line[end+1:])
	if len(f) < 15 {
		return stat{}, fmt.Errorf("short stat line: %q", line)
	}
	n := func(s string) int64 { v, _ := strconv.ParseInt(s, 10, 64); return v }
	return stat{
		pid: int(n(line[:open])), parent: int(n(f[1])),
		own:    time.Duration(n(f[11])+n(f[12])) * tick,
		reaped: time.Duration(n(f[13])+n(f[14])) * tick,
	}, nil
}

// processes is every process there is.
func processes() map[int]stat {
	all := map[int]stat{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			continue // ended meanwhile
		}
		if s, err := parseStat(string(raw)); err == nil {
			all[s.pid] = s
		}
	}
	return all
}

// tree is a process and all its descendants.
func tree(root int) []int { return treeOf(processes(), root) }

func treeOf(all map[int]stat, root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		for _, s := range all {
			if s.parent == pids[i] {
				pids = append(pids, s.pid)
			}
		}
	}
	return pids
}

// A clock is a reading of everybody's CPU time.
type clock struct {
	at  time.Time
	all map[int]stat
}

func readClock() clock { return clock{time.Now(), processes()} }

// of is the CPU time a process tree has used.
func (c clock) of(root int) (sum time.Duration) {
	for _, pid := range treeOf(c.all, root) {
		sum += c.all[pid].own
	}
	return sum
}

// total is everybody's CPU time, that of reaped children included: a child's
// time passes to its parent's account when it ends, so the sum only grows.
func (c clock) total() (sum time.Duration) {
	for _, s := range c.all {
		sum += s.own + s.reaped
	}
	return sum
}

// foreign is the share of the machine that was used between two readings by
// anything but the benchmark itself, what it ran and reaped meanwhile, and the
// process trees under the roots.
func foreign(before, after clock, cores, self int, roots ...int) float64 {
	account := func(c clock) time.Duration {
		ours := map[int]bool{self: true}
		for _, r := range roots {
			for _, pid := range treeOf(c.all, r) {
				ours[pid] = true
			}
		}
		sum := c.total()
		for pid := range ours {
			sum -= c.all[pid].own + c.all[pid].reaped
		}
		return sum
	}
	used := account(after) - account(before)
	return max(0, used.Seconds()/(after.at.Sub(before.at).Seconds()*float64(cores)))
}

// resident is the resident memory of a process tree in bytes.
func resident(root int) (bytes int64) {
	for _, pid := range tree(root) {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil {
			bytes += parseResident(raw)
		}
	}
	return bytes
}

func parseResident(status []byte) int64 {
	_, rest, found := bytes.Cut(status, []byte("\nVmRSS:"))
	if !found {
		return 0
	}
	f := bytes.Fields(rest)
	kb, _ := strconv.ParseInt(string(f[0]), 10, 64)
	return kb << 10
}
