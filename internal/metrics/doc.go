package metrics

import (
	"fmt"
	"strings"
)

// Document is docs/metrics.md, made from the Catalogue.
func Document() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n" +
		"`GET /metrics`, open, in the Prometheus text format. Generated from `internal/metrics/catalogue.go`\n" +
		"(`go test ./internal/metrics -update`); a test keeps the two equal.\n\n" +
		"Every label has a closed list of values and every series exists from the start, so nothing that clients,\n" +
		"workers or paths contain can add one. The Go (`go_*`, without the version) and process (`process_*`)\n" +
		"collectors come on top. Example alerts: `deploy/prometheus/alerts.yaml`.\n\n" +
		"| Metric | Kind | Meaning |\n|---|---|---|\n")
	for _, f := range Catalogue {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", title(f), f.Kind, f.Help)
	}
	b.WriteString("\n## Label values\n\n")
	for _, f := range Catalogue {
		for _, l := range f.Labels {
			if l.Values == nil {
				continue
			}
			fmt.Fprintf(&b, "- `pinboard_%s` **%s**: `%s`\n", f.Name, l.Name, strings.Join(l.Values, "` `"))
		}
	}
	return b.String()
}

func title(f Family) string {
	if len(f.Labels) == 0 {
		return "pinboard_" + f.Name
	}
	return "pinboard_" + f.Name + "{" + strings.Join(names(f), ",") + "}"
}
