// Package worker makes a Go process a Pinboard worker: one live instance per
// id, across the whole fleet.
//
// A worker registers its address and its namespaces with any Pinboard node.
// Clients ask Pinboard for /<namespace>/<id>/<rest>; Pinboard picks one worker
// for each id and sends all its requests there. This package opens an Instance
// for an id when its first request comes, keeps it in memory, and closes it
// when it has been idle, when an operator says so, or when the worker ends.
//
// # What you can rely on
//
// While an instance is open here, no other process of the fleet has one of the
// same id. The promise rests on a lease that Pinboard grants and this package
// renews every few seconds:
//
//   - New instances are refused, with a retryable error, when the lease has
//     less than Config.Buffer left.
//   - When it has less than half of that left, every instance is closed: its
//     contexts end, its close hooks run, and the hooks' own context ends with
//     the lease. Time is read from the monotonic clock and counted from the
//     sending of the renewal, so the lease here ends before it ends at
//     Pinboard, whatever the wall clock does.
//   - Every request carries a signed identity and the epoch of its placement,
//     a number that only grows. A request of an older placement than one seen
//     before, or of one that was given back, is refused.
//   - An id is given back only after all requests and background work of its
//     instance have returned and its close hooks have succeeded.
//   - The lease is looked at behind every wait, whatever was waited for and
//     however long the process stood still: before Open, before each request
//     is handed to the instance, before background work begins, before a call
//     to another instance, before a close hook, and before an answer says
//     anything. What finds the lease ended does not begin.
//
// What no lease can promise: a process that is frozen past its lease, or code
// that ignores the end of its context, may still hold memory of an id that
// lives elsewhere by now. No request reaches it, with one exception: between
// the last look and the first instruction of your code lies no wait, no lock
// and no system call, but the process can be stopped even there. A stop of less
// than half of Config.Buffer does no harm at that point, since nothing is
// handed over with less left. After a longer one your code begins late, with a
// context that ends as soon as the process goes on; what it writes as its
// answer reaches nobody. The same holds for code that was running when the
// process stopped. Guard stored data with Instance.Epoch: write it beside the
// data and refuse a write of a lower one.
//
// Memory survives a restart of Pinboard and of its store, as long as the lease
// is renewed in time: the worker registers again and says what it holds, and
// is told what it must close.
package worker
