package main

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// strays are variables that look like settings and are none: a typo.
func strays(environ []string) (names []string) {
	known := map[string]bool{}
	for f := range reflect.TypeFor[Config]().Fields() {
		known[f.Tag.Get("var")] = true
	}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "PINBOARD_") && !known[name] && !injected(name, value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// What platforms put into every container beside a service whose name is
// pinboard or begins with it: Kubernetes for services, Docker for links. The
// names alone tell, but for two that could be a setting misspelt: their values
// do.
var (
	injectedName = regexp.MustCompile(`^PINBOARD_([A-Z0-9_]+_)?` +
		`(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	injectedPort = regexp.MustCompile(`^PINBOARD_([A-Z0-9_]+_)?PORT$`)
	serviceURL   = regexp.MustCompile(`^(tcp|udp|sctp)://`)
	linkName     = regexp.MustCompile(`^PINBOARD_([A-Z0-9_]+_)?NAME$`)
)

func injected(name, value string) bool {
	return injectedName.MatchString(name) ||
		injectedPort.MatchString(name) && serviceURL.MatchString(value) ||
		linkName.MatchString(name) && strings.HasPrefix(value, "/") ||
		strings.HasPrefix(name, "PINBOARD_ENV_")
}
