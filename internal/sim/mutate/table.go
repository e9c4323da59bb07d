package main

const (
	dir      = "internal/ownership/"
	shell    = "internal/directory/"
	release  = dir + "release.go"
	register = dir + "register.go"
	renew    = dir + "renew.go"
	rules    = dir + "rules.go"
	fitness  = dir + "fitness.go"
	lookup   = dir + "lookup.go"
	orders   = dir + "orders.go"
	scope    = dir + "scope.go"
	binding  = dir + "binding.go"
	place    = dir + "place.go"
	collect  = dir + "collect.go"
	recheck  = dir + "recheck.go"
	sessions = shell + "sessions.go"
	resolve  = shell + "resolve.go"
	report   = shell + "report.go"
	memory   = "internal/memstore/memstore.go"
	closing  = dir + "closing.go"
	judge    = "internal/guard/history.go"
	watcher  = "internal/guard/clock.go"
	guards   = "internal/guard/guard.go"
	script   = "internal/redisstore/commit.lua"
	redis    = "internal/redisstore/store.go"
)

func one(rule, what, file, old, new string) fault {
	return fault{rule, what, []edit{{file, old, new}}}
}

var faults = []fault{
	one("L1", "a renewal may lower a deadline", renew, "s.Until = max(s.Until, tx.Now+p.Lease+p.Slack)", "s.Until = tx.Now + p.Lease + p.Slack"),
	one("L1", "a registration tells more than it writes", sessions, "g := Grant{Session: w.Session, ExpiresIn: d.o.Lease,", "g := Grant{Session: w.Session, ExpiresIn: 2 * d.o.Lease,"),
	one("L1", "a beat tells more than it writes", sessions, "g := Grant{Session: b.Session, ExpiresIn: d.o.Lease}", "g := Grant{Session: b.Session, ExpiresIn: 2 * d.o.Lease}"),
	one("L2", "a beat is renewed although a bucket did not take it", sessions, "		return Grant{}, joined(err)\n	}\n	worst, placed := all[0], int64(0)", "		_ = err\n	}\n	worst, placed := all[0], int64(0)"),
	one("L3", "a lapsed lease is renewed", renew, "	case !tx.Before(s.Until):\n		return Lost, \"lease lapsed\"\n", ""),
	one("L3", "a lapsed lease that lost an id may run again after a step back", place, "			p.lapse(tx, id)\n", "			_ = id\n"),
	one("L4", "a registration moves rows before its lease is granted", register, "	s.Until = max(s.Until, tx.Now+p.Lease+p.Slack)\n", "	s.Until = max(s.Until, tx.Now)\n"),
	one("L5", "a process with a past gets new ids before its first beat", fitness, "when(s.Worker.Past && !s.Beaten, IsNew)", "0"),
	one("L6", "an older session of the process is renewed", renew, "	case f&(IsSucceeded|IsLetGo) != 0:\n		return Lost, \"replaced by a newer session of this process\"\n", ""),
	one("L6", "what is not restated stays with the process", register, "	if e.Last {\n", "	if false {\n"),
	one("L7", "a newer session at the same URL replaces nobody", register, "	old.ReplacedBy = s.Worker.Session\n	tx.PutSession(*old)\n", "	tx.PutSession(*old)\n"),
	one("L7", "a newcomer does not wait for half a lease", register, "case tx.Now < s.ProvedAt+s.TTL/2:", "case false:"),
	one("L7", "a replaced session is renewed", renew, "		return Unrenewed, \"another process was proved at the advertise URL\"\n", "		return Renewed, \"\"\n"),
	one("L7", "a worker whose address came back is lost for ever", renew, "if p.fate(tx, newer) != running && !tx.Before(s.Until) && b.Proof == ProofOK {", "if false {\n			_ = newer"),
	one("L7", "requests go to a replaced session", lookup, "	case f&(IsReplaced|IsSuperseded) != 0:\n		found.Free = p.freeAt(tx, s)\n		return pinboard.OwnerReplaced\n", ""),
	one("L8", "the secret does not count for the identity of a process", shell+"directory.go", "sha256.Sum256([]byte(clientID + \"\\x00\" + secret))", "sha256.Sum256([]byte(clientID + \"\\x00\" + secret[:0]))"),
	one("L9", "clients can cause restate orders at will", renew, "return !l.Aborts && (l.Ordered == 0 || l.Ordered > now || now >= l.Ordered+orderLeases*l.TTL)", "return !l.Aborts"),
	one("L9", "a restate order is given although a bucket does not know of it", sessions, "	if err != nil {\n		return joined(err)\n	}\n	return Reregister{r.Reason}", "	_ = err\n	return Reregister{r.Reason}"),

	one("R1", "a new generation mints no lease above the clock", rules, "pinboard.Epoch(tx.Now+longest), lostMints", "pinboard.Epoch(tx.Now), lostMints"),
	one("R1", "a new generation mints just above the last epoch it knows", rules, "pinboard.Epoch(tx.Now+longest), lostMints", "pinboard.Epoch(tx.Now+longest), Micros(0)"),
	one("R1", "epochs do not follow the clock", memory, "max(b.last+1, pinboard.Epoch(now), m.Seen+1)", "max(b.last+1, m.Seen+1)"),
	one("R1", "epochs seen by the node do not count", memory, "max(b.last+1, pinboard.Epoch(now), m.Seen+1)", "max(b.last+1, pinboard.Epoch(now))"),
	one("R2", "a hit does not confirm the row", lookup, "if !mine && (row.Nonce != Nonce{} || row.Since != 0 && row.Wind == 0) {", "if false && !mine {"),
	one("R2", "the creator's own look after a lost reply confirms", lookup, "mine := row.Nonce != Nonce{} && row.Nonce == q.Nonce", "mine := false"),
	one("R3", "a confirmed row is taken back after a failed connect", release, "row.Kind != Placed || row.Epoch != epoch || nonce == (Nonce{}) || row.Nonce != nonce {", "row.Kind != Placed || row.Epoch != epoch {"),
	one("R3", "a refused new placement is not taken back", report, "if p.Fresh && d.releaseFresh(ctx, p) {", "if p.Fresh {"),
	one("R4", "a refusal of a confirmed row orders nothing", report, "			d.rules.Want(tx, p.Worker.Session)\n", ""),
	one("R5", "anybody may release", release, "	case owner == nil || owner.Worker.Process != by.Worker.Process:\n		return false\n	case !hasEpoch, epoch == row.Epoch:", "	case !hasEpoch, epoch == row.Epoch:"),
	one("R5", "a release counts at any epoch", release, "	case row.Since == 0 || epoch < row.Since || epoch > row.Epoch:\n		return false\n", ""),
	one("R5", "a release without an epoch frees at once", release, "		until = tx.Now + tx.Meta.Longest\n", "		until = 0\n"),
	one("R5", "what a process without acks left out is free at once", register, "			free += tx.Meta.Longest\n", "			free += 0\n"),
	one("R6", "rows come back in a new generation whether or not the lease ran", register, "	case ran:\n", "	case true:\n"),
	one("R6", "an unknown clock of an old server counts as a running lease", register, "	if !ok {\n		return false, 0\n	}\n	return now < s.Until", "	if !ok {\n		return true, 0\n	}\n	return now < s.Until"),
	one("R6", "a row keeps its epoch in a new generation", register, "		tx.MintRow(k, *row, e.Seen)\n		return true\n", "		tx.PutRow(k, *row)\n		return true\n"),
	one("R6", "a row forgets the epoch its worker knows", register, "			row.Since = row.Epoch\n", ""),
	one("R7", "a duplicate gets no closing row", closing, "	tx.MintRow(k, r, e.Seen)\n}", "	_ = r\n}"),
	one("R7", "somebody else's row comes back to whoever restates it", register, "	mine := owner != nil && owner.Worker.Process == s.Worker.Process\n", "	mine := owner != nil\n"),
	one("R7", "a closing row that nobody releases stays", closing, "	overdue := tx.Now >= row.Made+orderLeases*tx.Meta.Longest\n", "	overdue := false\n"),
	one("R7", "in another generation the row counts more than the worker", register, "	case !mine && here && ran:\n", "	case !mine && ran:\n"),
	one("R7", "the last one told to quit is the only one waited for", closing, "			closers = append(closers, p.stillClosing(tx, row, s.Worker.Process)...)\n", ""),
	one("R7", "the first release ends a closing row of several", closing, "	case 0:\n		p.free", "	default:\n		p.free"),
	one("R7", "an id is served while its duplicate closes", lookup, "	case state == running && row.Kind == Placed:\n", "	case state == running && row.Kind == Closing:\n		f.Session = *tx.Session(row.Session)\n		return f, nil\n	case state == running && row.Kind == Placed:\n"),
	one("R8", "a lapsed row is dropped at once", collect, "return tx.Now >= s.Until+graceLeases*tx.Meta.Longest\n}\n\n// Forget", "return true\n}\n\n// Forget"),
	one("R8", "dead rows are never collected", collect, "		if p.spent(tx, row) {\n", "		if false {\n"),
	one("R9", "placements without instances are never asked about", sessions, "if worst.Standing == ownership.Renewed && placed > d.o.PlaceLimit &&", "if false && placed > d.o.PlaceLimit &&"),
	one("R10", "a placement whose reply is lost counts as not done", resolve, "		f, sent, err = d.lookup(ctx, b, q)\n		if err != nil || f.Vacant {", "		return p, false, nil\n		if err != nil || f.Vacant {"),

	one("G1", "a hit does not look at the server", memory, "if ownership.ServerOf(b.meta.Gen) != s.server || !ok ||", "if !ok ||"),
	one("G1", "a new server is not noticed", rules, "case ServerOf(m.Gen) != tx.Server:", "case m.Gen == \"\":"),
	one("G1", "a server that comes back continues its old generation", rules, "return server + \"@\" + strconv.FormatInt(began, 36)", "return server + strconv.FormatInt(began, 36)[:0]"),
	one("G2", "a new generation is warm", rules, "Cold: tx.Now + longest + p.Lag,", "Cold: tx.Now,"),
	one("G2", "a session of an old generation is renewed", renew, "	case f&IsOld != 0:\n		return Lost, \"registry restarted\"\n", ""),
	one("G2", "rows of an old generation are free while it is cold", fitness, "		if p.cold(tx) {\n			return unknown\n		}\n", ""),
	one("G3", "the lag of replicas is not waited for", rules, "Cold: tx.Now + longest + p.Lag,", "Cold: tx.Now + longest,"),
	one("G4", "a stepped clock changes nothing", rules, "	case tx.Doubt != \"\":\n		p.generation(tx, longest, tx.Doubt)\n", ""),
	one("G4", "each reading is compared with the last one alone", watcher, "	from := r.Received - window - pause\n", "	from := r.Received\n"),
	one("G4", "a node takes its own sleep for a step of the store's clock", guards, "(s.slept || g.dozed())", "s.slept"),
	one("G4", "a slow reply may hide a step", watcher, "	case hi-w.leastLo.best() > limit+spare:\n		return Unsure, false\n", ""),
	one("G4", "a step while the node slept is believed to be its own sleep", judge, "	case r.Received-s.asked > vouching:\n		return ownership.ClockStepped, true\n	}\n	return \"\", false", "	}\n	return \"\", true"),
	one("G4", "a record of before the sleep vouches for it", judge, "w.Until >= s.wake", "true"),
	one("G1", "forgotten commits are not missed", judge, "	case st.Gen == k.gen && st.Commits < k.commits:\n		return ownership.HistoryLost, true\n", ""),
	one("G1", "an older generation may come back", judge, "	case st.Gen != k.gen && answered && st.Since < k.at-grace:\n		return ownership.HistoryLost, true\n", ""),
	one("G1", "a server that was left may come back as it was", judge, "if was && (st.Gen == p.gen || st.Since < p.at-grace) {", "if was && false {"),
	one("L6", "a registration heard before a later one still counts", register, "		case s.Worker.Session != w.Session && s.Gen == tx.Meta.Gen && s.At > heard(tx, e.Heard):\n			return Wait{\"a later registration of this process is there\", time.Second}\n", ""),
	one("L6", "a chunk of an older registration still counts", register, "s != nil && s.Phase >= Succeeded {", "s != nil && false {"),
	{"G4", "the store holds a lease no longer than it tells", []edit{
		{renew, "s.Until = max(s.Until, tx.Now+p.Lease+p.Slack)", "s.Until = max(s.Until, tx.Now+p.Lease)"},
		{register, "s.Until = max(s.Until, tx.Now+p.Lease+p.Slack)", "s.Until = max(s.Until, tx.Now+p.Lease)"}}},
	one("G5", "a node forgets the longest lease with the store", rules, "		longest = max(longest, p.Longest())\n", "		_ = p.Longest\n"),
	one("G5", "a cold start is not extended when the record is raised", rules, "			m.Cold = max(m.Cold, m.Since+longest+p.Lag)\n", "			_ = m.Since\n"),
	one("G6", "the store does not judge the chosen worker again", place, "if !p.placeable(tx, s, q.Host, f.Key.Env, q.NS) {", "if s == nil {"),
	one("G6", "the store does not look again whether the id is free", place, "	if refusal != nil || !f.Vacant {", "	if refusal != nil {"),
	one("G7", "an Update takes what changed since it was read", script, "    if (got[j] or '') ~= ARGV[at] then return reply('conflict') end\n", ""),
	one("G1", "a commit on Redis does not look at the server", script, "if run ~= ARGV[2] then return reply('server') end\n", ""),
	one("G4", "a commit on Redis happens at any time ahead", script, "if now > tonumber(ARGV[4]) then return reply('ahead') end\n", ""),
	one("G4", "a commit on Redis happens at a time before its read", script, "if now < tonumber(ARGV[3]) or commits < tonumber(ARGV[8]) then return reply('back') end\n", ""),
	one("G4", "a stepped clock of a Redis leaves its buckets warm", redis, "	tx.Doubt, v.sure = doubt,", "	_ = doubt\n	v.sure ="),
	one("R5", "a commit on Redis happens after its not-after", script, "if now >= tonumber(ARGV[5]) then return reply('late') end\n", ""),
	one("R1", "epochs on Redis do not follow the clock", script, "  lo = lo + 1\n  if lo == 4294967296 then hi, lo = hi + 1, 0 end\n  raise(math.floor(now / 4294967296), now % 4294967296)\n", "  lo = lo + 1\n  if lo == 4294967296 then hi, lo = hi + 1, 0 end\n"),
	one("R1", "a new generation on Redis leaps nowhere", script, "  hi, lo = hi + h + math.floor((lo + l) / 4294967296), (lo + l) % 4294967296\n", ""),

	one("F2", "a node believes a lease longer than the store", resolve, "Deadline: sent.Add(time.Duration(s.Until-f.Now) * time.Microsecond),", "Deadline: sent.Add(time.Duration(s.Until-f.Now)*time.Microsecond + 5*time.Second),"),
	one("F2", "a stream of an id that moved is not cut", recheck, "	if row == nil || row.Kind == Held {\n		return Sighting{Gone: true}\n", "	if row == nil || row.Kind == Held {\n		return Sighting{}\n"),
	one("F3", "a restating session's 403s count against it", resolve, "Settling: s.Asked != 0 || f.Now-s.At", "Settling: f.Now-s.At"),
	one("F4", "forwarding goes on after the deadline", lookup, "	case row.Wind != 0 && !tx.Before(row.Wind):\n		return pinboard.WindingDown\n", ""),
	one("F4", "no eviction at the deadline", orders, "if tx.Now >= row.Wind && !o.Evict {", "if false {"),
	one("F4", "an order may be shorter than a lease", orders, "tx.Now+max(deadline.Microseconds(), tx.Meta.Longest)", "tx.Now+deadline.Microseconds()"),
	one("F4", "a row outlives its wind-down for ever", orders, "	if tx.Now >= row.Wind+orderLeases*tx.Meta.Longest {\n		s.due()\n	}\n", ""),
	one("F4", "an ack ends the order", orders, "	if o.Revoke {\n		return 0, true\n	}\n	row :=", "	if o.Revoke {\n		return 0, true\n	}\n	if o.Acked {\n		return 0, false\n	}\n	row :="),
	one("F4", "a revoke leaves the deadline", orders, "	row.Wind, row.Claim = 0, \"\"\n", "	row.Claim = \"\"\n"),
	one("F4", "deliveries do not age the deadline", orders, "d := time.Duration(max(left, 0)) * time.Microsecond", "d := time.Duration(max(15*second, left-left)) * time.Microsecond"),

	one("H1", "a displaced binding does not wait", scope, "return b != nil && tx.Now < b.Wait && b", "return b != nil && false && b"),
	one("H2", "superseded although a binding is left", scope, "		if own := w.EnvOf(ns); b.Env == own || b.InForce() == own {\n			return \"\", 0, false\n		}\n", ""),
	one("H2", "never superseded", scope, "		env, epoch, yes = b.Env, b.Epoch, true\n", ""),
	one("H3", "anybody may place an id that another hostname took over", scope, "return row.Claim != \"\" && row.Claim != host && since != 0 && tx.Now < since+tx.Meta.Longest", "return false"),
	one("H3", "two busy hostnames toss an id to and fro", scope, "	case row.Taken != 0 && row.Taken <= tx.Now && tx.Now < row.Taken+takeoverRest*tx.Meta.Longest && row.Claim == \"\":\n", "	case false:\n"),
	one("H3", "a takeover starts although nobody could have the id", scope, "	case row.Claim == \"\" && !p.placeable(tx, tx.Session(q.Heir), q.Host, k.Env, q.NS):\n", "	case false:\n"),
	one("H3", "an operator's long wind-down holds a takeover up", scope, "if row.Wind == 0 || row.Wind > due {", "if row.Wind == 0 {"),
	one("H1", "a registration displaces at once", scope, "		tx.PutBinding(k, b.claim(env, w.BindEpoch, tx.Now+tx.Meta.Longest))\n", "		tx.PutBinding(k, &Binding{Env: env, Epoch: w.BindEpoch})\n"),
	one("H1", "a claim that nobody lives up to stays", binding, "if b != nil && b.By != 0 && now >= b.By && b.Was != \"\" {", "if false {"),
	one("H1", "each bucket decides for itself who has the hostname", sessions, "		home, e.Decided = b, grants[b].Bound\n", "		home = b\n"),
	one("H1", "an id of the old env is free at once when its process changes env", register, "	p.elsewhere(tx, s, e)\n", ""),
	one("H2", "who has lost every binding is refused without end", scope, "	if w.Past || len(e.Claims) > 0 || e.Prev != \"\" || tx.Index(ByProcess(w.Process)) != \"\" {\n		return nil\n	}\n", ""),
	one("R6", "a hit at an owner that closes takes its release's right", lookup, "if row.Nonce = (Nonce{}); row.Wind == 0 {", "if row.Nonce = (Nonce{}); true {"),
	one("H3", "a takeover does not wind the owner down", scope, "		p.wind(tx, k, row, s, due, q.MsgID)\n", "		tx.PutRow(k, *row)\n"),
	one("H4", "a binding cannot be deleted", scope, "	tx.PutBinding(k, &Binding{Wait: tx.Now + tx.Meta.Longest})\n", ""),
	one("H4", "what is bound after a deletion does not wait", scope, "	tx.PutBinding(k, &Binding{Wait: tx.Now + tx.Meta.Longest})\n", "	tx.PutBinding(k, nil)\n"),

	one("SDK", "the lease is not looked at again behind Open", "worker/instance.go", "	switch l, now := in.h.look(); {\n	case l.expired(now):\n		return &leaseExpired\n	case l.ending(now):\n		return &closing\n	}\n", ""),
	one("SDK", "the lease counts from the answer", "worker/session.go", "s.lease.renewed(sent, grant.ExpiresIn)", "s.lease.renewed(s.m.Now(), grant.ExpiresIn)"),
}
