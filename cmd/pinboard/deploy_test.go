package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard/internal/metrics"
)

// Every alert has a remedy in docs/operating.md, and no remedy is for an alert
// that is gone.
func TestEveryAlertHasItsRemedy(t *testing.T) {
	names := func(re, text string) (list []string) {
		for _, m := range regexp.MustCompile(re).FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		slices.Sort(list)
		return list
	}
	alerts := names(`(?m)^ *- alert: (\w+)$`, read(t, "../../deploy/prometheus/alerts.yaml"))
	remedies := names("(?m)^\\| `(Pinboard\\w+)` \\| \\S.{20,} \\|$", read(t, "../../docs/operating.md"))
	if len(alerts) < 10 || !slices.Equal(alerts, remedies) {
		t.Errorf("alerts   %q\nremedies %q", alerts, remedies)
	}
	for _, needed := range []string{"PinboardNodeDown", "PinboardWorkersLost"} {
		if !slices.Contains(alerts, needed) {
			t.Errorf("no alert %s", needed)
		}
	}
}

// Alerts select values that the metrics have.
func TestAlertsSelectRealValues(t *testing.T) {
	text := read(t, "../../deploy/prometheus/alerts.yaml")
	selectors := regexp.MustCompile(`pinboard_(\w+)\{(\w+)=~?"([^"]+)"\}`).FindAllStringSubmatch(text, -1)
	if len(selectors) < 5 {
		t.Fatalf("%d selectors", len(selectors))
	}
	for _, s := range selectors {
		for _, value := range strings.Split(s[3], "|") {
			if !slices.ContainsFunc(metrics.Catalogue, func(f metrics.Family) bool {
				return f.Name == s[1] && slices.ContainsFunc(f.Labels, func(l metrics.Label) bool {
					return l.Name == s[2] && slices.Contains(l.Values, value)
				})
			}) {
				t.Errorf("no series pinboard_%s{%s=%q}", s[1], s[2], value)
			}
		}
	}
}

// The unit gives secrets as a credential, never locks a node out, and lets it
// drain.
func TestSystemdUnit(t *testing.T) {
	unit := read(t, "../../deploy/systemd/pinboard.service")
	value := func(key string) string {
		m := regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(unit, -1)
		if len(m) != 1 {
			t.Fatalf("%d lines %s=", len(m), key)
		}
		return m[0][1]
	}
	for key, want := range map[string]string{
		"StartLimitIntervalSec": "0", "Restart": "always", "LoadCredential": "passport:/etc/pinboard/passport.json",
		"Environment": "PINBOARD_PASSPORT=@passport", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict",
	} {
		if got := value(key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	if pause, err := time.ParseDuration(value("RestartSec")); err != nil || pause < time.Second || pause > time.Minute {
		t.Errorf("RestartSec=%s", value("RestartSec"))
	}
	budget := parse(t, nil, "--token=t", "--redis-url=memory:").ShutdownBudget
	if stop, err := time.ParseDuration(value("TimeoutStopSec")); err != nil || stop <= budget {
		t.Errorf("TimeoutStopSec=%s cuts a drain of %v short", value("TimeoutStopSec"), budget)
	}
	if strings.Contains(unit, "RestartPreventExitStatus") {
		t.Error("a node whose store was unfit for a moment would never come back")
	}
	verify(t, unit)
}

// verify has systemd read the unit, where it is installed. The command of the
// unit need not be there.
func verify(t *testing.T, unit string) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze: the unit is not verified")
		return
	}
	file := filepath.Join(t.TempDir(), "pinboard.service")
	unit = strings.ReplaceAll(unit, "/usr/local/bin/pinboard serve", "/bin/true")
	if err := os.WriteFile(file, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "verify", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "pinboard.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The passport as systemd hands it over: a read-only file in a directory that
// only the service knows.
func TestPassportFromACredential(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	doc := `{"providers":[{"type":"staticToken","id":"p","keys":[{"name":"k","token":"` + secret + `","scopes":["pinboard:operator"]}]}]}`
	if err := os.WriteFile(filepath.Join(dir, "passport"), []byte(doc), 0o400); err != nil {
		t.Fatal(err)
	}
	p := serve(t, "PINBOARD_TOKEN=", "PINBOARD_PASSPORT=@passport", "CREDENTIALS_DIRECTORY="+dir).ready()
	if status, body := p.getAs(secret, "/registry/workers"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := p.getAs("other", "/registry/workers"); status != 401 {
		t.Errorf("another token: %d", status)
	}
}

// The image asks the node itself: it has no shell.
func TestImageProbesItself(t *testing.T) {
	image := read(t, "../../deploy/Dockerfile")
	if !regexp.MustCompile(`(?m)^HEALTHCHECK .*CMD \["/pinboard", "probe"\]$`).MatchString(image) {
		t.Error("deploy/Dockerfile has no health check by pinboard probe")
	}
	if !strings.Contains(image, `ENTRYPOINT ["/pinboard"]`) {
		t.Error("the health check calls another command than the image runs")
	}
}
