package worker

import (
	"os"
	"strconv"
	"strings"
)

// freeMemory is what the control group still allows, in megabytes; 1024 where
// there is no limit, as the published clients report.
func freeMemory() float64 {
	limit, ok := readBytes("/sys/fs/cgroup/memory.max")
	used, ok2 := readBytes("/sys/fs/cgroup/memory.current")
	if !ok || !ok2 {
		return 1024
	}
	return max(0, (limit-used)/(1<<20))
}

func readBytes(file string) (float64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	return n, err == nil
}
