package storetest

import (
	"context"

	"pinboard/internal/ownership"
)

// Audited is store with every rule's writes held to the invariants of the
// model (ownership.Audit); what breaks them goes to fail.
func Audited(store ownership.Store, fail func(error)) ownership.Store {
	return audited{store, fail}
}

type audited struct {
	ownership.Store
	fail func(error)
}

func (a audited) Update(ctx context.Context, b int, sel ownership.Select, rule func(*ownership.Tx) error) error {
	return a.Store.Update(ctx, b, sel, func(tx *ownership.Tx) error {
		err := rule(tx)
		if broken := ownership.Audit(tx); broken != nil {
			a.fail(broken)
		}
		return err
	})
}
