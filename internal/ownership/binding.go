package ownership

// A Binding says which env a hostname's namespace shows (H1). A registration of
// another env displaces it only once a worker of that env has beaten: until
// then the incumbent stays in force, so that a registration which died halfway
// displaces nobody.
//
//	none -> bound, unproven(By) -> bound
//	bound(Was) -> claimed(Env, By) -> bound(Env), no new ids until Wait
//	                 | nobody of Env has beaten by By: bound(Was) as before
type Binding struct {
	Env   string // "" for a deleted one, which is there for its Wait alone
	Epoch int64
	Wait  Micros // displaced: no new ids before this

	By       Micros // no worker of Env has beaten yet: it must by then; 0: one has
	Was      string // meanwhile in force; "" when nobody was there before
	WasEpoch int64
}

// InForce is the env that the hostname shows now, "" for none.
func (b *Binding) InForce() string {
	if b.By != 0 && b.Was != "" {
		return b.Was
	}
	return b.Env
}

func bound(b *Binding) bool { return b != nil && b.Env != "" }

// settled is b without a claim that nobody has lived up to.
func settled(b *Binding, now Micros) *Binding {
	if b != nil && b.By != 0 && now >= b.By && b.Was != "" {
		return &Binding{Env: b.Was, Epoch: b.WasEpoch, Wait: b.Wait}
	}
	return b
}

// refuses says whether the binding keeps a worker of env at epoch away: for
// good when another env holds it, for now when another env is about to. decided
// means that the bucket which decides for the hostname has let it in.
func (b *Binding) refuses(env string, epoch int64, decided bool, now Micros) (held, wait bool) {
	switch {
	case !bound(b), b.Env == env, b.By != 0 && b.Was == env:
		return false, false
	case b.By != 0 && (decided || epoch > b.Epoch || now >= b.By):
		return false, false
	case b.By != 0:
		return false, true
	}
	return epoch < b.Epoch || epoch == b.Epoch && !decided, false
}

// claim is the binding behind a registration of env at epoch that it does not
// refuse; by is when a beat must have come.
func (b *Binding) claim(env string, epoch int64, by Micros) *Binding {
	switch {
	case b == nil:
		return &Binding{Env: env, Epoch: epoch, By: by}
	case b.Env == "":
		return &Binding{Env: env, Epoch: epoch, By: by, Wait: b.Wait}
	case b.Env == env:
		c := *b
		if c.Epoch = max(c.Epoch, epoch); c.By != 0 {
			c.By = by
		}
		return &c
	case b.By != 0 && b.Was == env:
		if epoch > b.Epoch { // the incumbent is newer than who claims its place
			return &Binding{Env: env, Epoch: epoch, Wait: b.Wait}
		}
		return b
	case b.By != 0 && b.Was != "": // a claim that nobody has lived up to
		return &Binding{Env: env, Epoch: epoch, Wait: b.Wait, By: by, Was: b.Was, WasEpoch: b.WasEpoch}
	}
	return &Binding{Env: env, Epoch: epoch, Wait: b.Wait, By: by, Was: b.Env, WasEpoch: b.Epoch}
}
