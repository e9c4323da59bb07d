//go:build linux

package faults

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		workerProcess()
		return
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	flag.Parse()
	var err error
	if binaries.dir, err = os.MkdirTemp("", "faults"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(binaries.dir)
	flag.Set("test.parallel", "6") // they wait much and compute little
	code := m.Run()
	if text := recoveries(); text != "" {
		fmt.Print(text)
		os.WriteFile(root+"/.cache/recoveries.txt", []byte(text), 0o644) // for scripts/, which show it; absent elsewhere
	}
	return code
}

var table = struct {
	sync.Mutex
	rows []string
}{}

// recovered notes how long a fault was felt after its end.
func recovered(name string, took time.Duration) {
	table.Lock()
	defer table.Unlock()
	table.rows = append(table.rows, fmt.Sprintf("%-58s %5.1f\n", name, took.Seconds()/lease.Seconds()))
}

// recoveries is the table: leases from the end of a fault until every id was
// served again.
func recoveries() string {
	table.Lock()
	defer table.Unlock()
	if len(table.rows) == 0 {
		return ""
	}
	slices.Sort(table.rows)
	return fmt.Sprintf("\n%-58s leases until every id is served again (of %v)\n%s", "fault", lease, strings.Join(table.rows, ""))
}
