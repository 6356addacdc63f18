// Package lock lets one process at a time do something, on any number of machines: a mutex in Redis, and with it a
// read-write lock and a semaphore.
//
// A lock is a String in Redis, named after the resource ("lock:order:12345"), which holds the token of its owner and expires:
// a holder that crashes blocks the others for Options.TTL. While the holder lives, its lease is renewed in the background.
//
// [New] makes a [Locker], [Locker.Mutex] names a resource, and [Do] with [Mutex.Lock] runs a function under the lock:
//
//	err := lock.Do(ctx, locks.Mutex("order:12345").Lock, func(ctx context.Context, lease *lock.Lease) error {
//		return ship(ctx, order, lease.Fence())
//	})
//
// [Mutex.TryLock] does not wait. What is acquired is a [Lease], which ends with [Lease.Release], from any goroutine. Who waits
// is served in turn: a release hands the lock to the waiter that is next. [Locker.RWMutex] lets readers in together,
// [Locker.Semaphore] a number of holders, and [NewQuorum] spreads a mutex over independent servers.
//
// # What a lock with a lease cannot do
//
// A holder that is paused longer than its lease, by its garbage collector, its hypervisor or a swapping machine, goes on as if
// it had the lock, while another has it. [Lease.Context] ends before that, but code between two looks at it cannot know.
// And Redis replicates behind the reply, so a failover can lose the last writes, an acquisition among them. Where two holders
// at a time are more than a waste of work, send [Lease.Fence] with each write and let the resource refuse a number lower than
// the highest that it has seen.
package lock
