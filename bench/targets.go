package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"pinboard/bench/figures"
)

// A recipe starts one kind of target on a port; streams is a second port for
// those that serve upgrades elsewhere.
type recipe struct {
	name  string
	start func(port, streams int) (*Process, error)
}

// plan lays out the targets of a run, in the order of the tables. It takes
// two ports for each.
func (f *Fleet) plan(ports []int) []*Target {
	recipes := []recipe{
		{figures.Nginx, f.nginx},
		{figures.HAProxy, f.haproxy},
		{figures.NginxLua, f.nginxLua},
		{figures.NodeRequest, func(port, _ int) (*Process, error) {
			return f.node(figures.NodeRequest, port, "VARIANT=request")
		}},
		{figures.NodeDispatch, func(port, _ int) (*Process, error) {
			return f.node(figures.NodeDispatch, port, "VARIANT=dispatch", "AUTOPIPE=1")
		}},
		{figures.ReverseProxy, f.reverseProxy},
		{figures.Caddy, f.caddy},
		{figures.Pinboard, func(port, _ int) (*Process, error) {
			return f.pinboardNode(figures.Pinboard, port, "REDIS_URL=redis://"+address(f.redisPort))
		}},
		{figures.PinboardMem, func(port, _ int) (*Process, error) {
			return f.pinboardNode(figures.PinboardMem, port, "REDIS_URL=memory:", "PINBOARD_COLD_START=off")
		}},
	}
	_, noCaddy := exec.LookPath("caddy")
	recipes = slices.DeleteFunc(recipes, func(r recipe) bool {
		return !f.takesPart(r.name) || r.name == figures.Caddy && noCaddy != nil
	})
	targets := []*Target{{Name: figures.Direct, Address: f.worker, Streams: f.worker}}
	for i, r := range recipes {
		port, streams := ports[2*i], ports[2*i+1]
		t := &Target{Name: r.name, Address: address(port), Streams: address(port)}
		if r.name == figures.Nginx {
			t.Streams = address(streams)
		}
		t.start = func() (*Process, error) { return r.start(port, streams) }
		targets = append(targets, t)
	}
	return targets
}

func (f *Fleet) nginx(port, streams int) (*Process, error) {
	conf, err := f.config("nginx.conf", "@PORT@", strconv.Itoa(port), "@STREAMS@", strconv.Itoa(streams))
	if err != nil {
		return nil, err
	}
	return startProcess(f.scratch, figures.Nginx, nil, "nginx", "-c", conf, "-g", "daemon off;")
}

func (f *Fleet) nginxLua(port, _ int) (*Process, error) {
	conf, err := f.config("nginx-lua.conf", "@PORT@", strconv.Itoa(port),
		"@REDIS@", strconv.Itoa(f.redisPort), "@SHA@", f.script)
	if err != nil {
		return nil, err
	}
	return startProcess(f.scratch, figures.NginxLua, nil, "nginx", "-c", conf, "-g", "daemon off;")
}

func (f *Fleet) haproxy(port, _ int) (*Process, error) {
	conf, err := f.config("haproxy.cfg", "@PORT@", strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	return startProcess(f.scratch, figures.HAProxy, nil, "haproxy", "-db", "-f", conf)
}

func (f *Fleet) caddy(port, _ int) (*Process, error) {
	conf, err := f.config("Caddyfile", "@PORT@", strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	return startProcess(f.scratch, figures.Caddy, nil, "caddy", "run", "--config", conf, "--adapter", "caddyfile")
}

func (f *Fleet) node(name string, port int, env ...string) (*Process, error) {
	env = append(env, "PORT="+strconv.Itoa(port), "REDIS_PORT="+strconv.Itoa(f.redisPort), "CONNS=8000")
	return startProcess(f.scratch, name, env, "node", filepath.Join(f.peers, "node", "proxy.mjs"))
}

func (f *Fleet) reverseProxy(port, _ int) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(f.scratch, figures.ReverseProxy, nil, self, "reverseproxy", address(port), f.worker)
}

// pinboardNode runs the binary under test as it comes, but for what a single
// worker with a million ids asks for: it is never told to restate them, and a
// restart does not wait for load balancers.
func (f *Fleet) pinboardNode(name string, port int, env ...string) (*Process, error) {
	env = append(env, "PORT="+strconv.Itoa(port), "PINBOARD_HOST=127.0.0.1", "PINBOARD_TOKEN="+token,
		"PINBOARD_SHUTDOWN_NOTICE_MS=0", "PINBOARD_SHUTDOWN_BUDGET_MS=500",
		"PINBOARD_RESTATE_AFTER=1000000000")
	return startProcess(f.scratch, name, env, f.pinboard, "serve")
}
