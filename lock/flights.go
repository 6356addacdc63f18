package lock

import "context"

// flights are requests of one kind for a lease that are under way; guarded by its mu.
type flights struct {
	n    int
	idle chan struct{} // closed when there are none; made by who waits for that
}

func (l *Lease) landed(f *flights) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.n--; f.n == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// settle waits until none is under way.
func (l *Lease) settle(ctx context.Context, f *flights) {
	l.mu.Lock()
	if f.n == 0 {
		l.mu.Unlock()
		return
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	l.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
