// Command pinboard is the control plane and front door of durable objects:
// `pinboard serve` runs one node.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
