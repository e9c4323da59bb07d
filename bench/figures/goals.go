package figures

// Names of the targets, as they appear in tables and goals.
const (
	Pinboard     = "pinboard"
	PinboardMem  = "pinboard memory:"
	Nginx        = "nginx"
	NginxLua     = "nginx + Lua"
	HAProxy      = "haproxy"
	Caddy        = "caddy"
	NodeRequest  = "node request"
	NodeDispatch = "node dispatch"
	ReverseProxy = "Go ReverseProxy"
	Direct       = "direct"
)

// SeedRowBytes is what one row took in the layout of the first
// implementation: a long key with a SHA-256 and a JSON value, at a million rows.
const SeedRowBytes = 264

// Measurements is everything a run learned.
type Measurements struct {
	Closed []Round // 64 connections, closed loop
	Single []Round // one connection, closed loop
	Open   []Round // 2,000 requests/s over 64 connections, open loop
	// Heap objects the Pinboard process allocates per request on the hit path.
	Allocs Spread
	// System calls per request at 64 connections, by target.
	Syscalls map[string]Spread
	// Resident bytes per idle connection, by target.
	WebSocket, EventStream map[string]Spread
	// Redis memory per placed id.
	RowBytes Spread
}

// Results holds the run against the goals of docs/performance.md.
func Results(m Measurements) []Result {
	cpu := func(base string) Spread { return Ratio(m.Closed, Pinboard, base, CPU) }
	rate := func(base string) Spread { return Ratio(m.Closed, Pinboard, base, Rate) }
	added := func(base string) Spread { return AddedRatio(m.Single, Pinboard, base, Direct, P50) }
	kb := func(s Spread) Spread { return s.Scale(1.0 / 1024) }
	ws, es := m.WebSocket, m.EventStream
	return []Result{
		{Goal{"T1", "CPU per request vs nginx (no look-up)", 1.6, 1.1, "x", false, true}, cpu(Nginx)},
		{Goal{"T13", "CPU per request vs nginx + Lua, same look-up", 0.75, 0.5, "x", false, true}, cpu(NginxLua)},
		{Goal{"T14", "CPU per request vs node request", 0.33, 0.2, "x", false, true}, cpu(NodeRequest)},
		{Goal{"T3", "CPU per request vs node dispatch", 0.45, 0.3, "x", false, false}, cpu(NodeDispatch)},
		{Goal{"T5", "CPU per request vs Caddy (no look-up)", 0.4, 0.25, "x", false, false}, cpu(Caddy)},
		{Goal{"T2", "requests/s vs node request", 2.5, 4, "x", true, false}, rate(NodeRequest)},
		{Goal{"T3", "requests/s vs node dispatch", 2, 2.6, "x", true, false}, rate(NodeDispatch)},
		{Goal{"T4", "requests/s vs nginx", 0.65, 0.85, "x", true, false}, rate(Nginx)},
		{Goal{"T4", "requests/s vs haproxy", 0.65, 0.85, "x", true, false}, rate(HAProxy)},
		{Goal{"T6", "added p50 at one connection vs node request", 0.65, 0.45, "x", false, false}, added(NodeRequest)},
		{Goal{"T6", "added p50 at one connection vs nginx", 3.2, 2.1, "x", false, false}, added(Nginx)},
		{Goal{"T7", "p99 at 2,000 requests/s, open loop, vs nginx", 1.4, 1.15, "x", false, false}, Ratio(m.Open, Pinboard, Nginx, P99)},
		// None at all is the aim; beats and the scrape itself leave a trace.
		{Goal{"T8", "allocations per request on the hit path", 3, 0.1, "", false, true}, m.Allocs},
		{Goal{"T8", "system calls per request on the hit path", 7, 5, "", false, true}, m.Syscalls[Pinboard]},
		{Goal{"T9", "Redis CPU per request vs node request", 0.5, 0.25, "x", false, false}, Ratio(m.Closed, Pinboard, NodeRequest, RedisCPU)},
		{Goal{"T10", "idle WebSocket", 16, 8, " KiB", false, true}, kb(ws[Pinboard])},
		{Goal{"T10", "idle WebSocket vs Go ReverseProxy", 0.3, None, "x", false, true}, ws[Pinboard].over(ws[ReverseProxy])},
		{Goal{"T11", "idle event stream", 24, 12, " KiB", false, true}, kb(es[Pinboard])},
		{Goal{"T12", "Redis memory per row vs the first layout", 0.6, 0.3, "x", false, true}, m.RowBytes.Scale(1.0 / SeedRowBytes)},
	}
}

// Scale multiplies median and range.
func (s Spread) Scale(f float64) Spread {
	s.Median, s.Min, s.Max = s.Median*f, s.Min*f, s.Max*f
	return s
}

// over is the quotient of two figures that were each measured once.
func (s Spread) over(base Spread) Spread {
	if s.N == 0 || base.N == 0 || base.Median <= 0 {
		return Spread{}
	}
	return s.Scale(1 / base.Median)
}
