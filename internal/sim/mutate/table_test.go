package main

import (
	"os"
	"testing"
)

// TestFaultsApply: every fault still finds its guard, so that the table cannot
// rot between two nightly runs.
func TestFaultsApply(t *testing.T) {
	if err := os.Chdir("../../.."); err != nil {
		t.Fatal(err)
	}
	if len(faults) < 30 {
		t.Errorf("only %d faults", len(faults))
	}
	for _, f := range faults {
		if _, err := f.overlay(t.TempDir()); err != nil {
			t.Errorf("%s, %s: %v", f.rule, f.what, err)
		}
	}
}
