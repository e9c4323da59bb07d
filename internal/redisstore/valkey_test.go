package redisstore_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"pinboard/internal/redistest"
)

// onValkey are the tests that a second kind of server must pass: the contract
// of a store, its topologies, faults, permissions, rotation and guarantees.
// Those with TLS are left out: the packaged Valkey is built without it.
var onValkey = []string{
	"TestStore", "TestScriptsAreForgotten", "TestCluster", "TestSlotMovesUnderLoad", "TestSentinelFailover", "TestSentinelCredentials",
	"TestWhatWasReadMustNotHaveChanged", "TestSteppedClockMakesCold", "TestFaultsAreNeverAbsence", "TestAMissingPermissionIsNamed",
	"TestRotationNeedsNoRestart", "TestRotationOfRequirepass", "TestRefusesWhatItMustNotUse", "TestGuarantee", "TestLostReplicasAreNotNone",
}

// The current Valkey passes what Redis passes: this very test program, run
// once more with valkey-server in place of redis-server.
func TestOnValkey(t *testing.T) {
	if os.Getenv("REDISTEST_SERVER") != "" {
		return // this is that run
	}
	server := redistest.Valkey()
	if server == "" {
		t.Skip("no valkey-server in the PATH, and scripts/setup.sh has none for this machine")
	}
	version, err := exec.Command(server, "--version").Output()
	if err != nil || !strings.HasPrefix(string(version), "Valkey server v=") {
		t.Fatalf("%s is no Valkey: %q %v", server, version, err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^("+strings.Join(onValkey, "|")+")$", "-test.v", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), "REDISTEST_SERVER="+server)
	out, err := cmd.CombinedOutput()
	for _, name := range onValkey {
		if !strings.Contains(string(out), "\n--- PASS: "+name+" (") {
			t.Errorf("%s did not pass on Valkey", name)
		}
	}
	if err != nil || t.Failed() {
		t.Fatalf("%v\n%s", err, out)
	}
}
