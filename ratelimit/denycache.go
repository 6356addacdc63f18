package ratelimit

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// denials remembers, in this process, who was denied what and until when. It holds denials alone, so it can deny late but
// never admit too much: late after a Reset or Refund in another process, or after a limit was raised elsewhere, and for
// longest a second.
type denials struct {
	base   time.Time
	seed   maphash.Seed
	shards []denialShard
	size   int // of each shard
}

type denialShard struct {
	mu   sync.Mutex
	byID map[string]denial
}

// denial is what was denied, and until when it holds: as long as the same may still be wanted.
type denial struct {
	limits []Limit
	n      int64
	result Result
	at     time.Duration // since base
	until  time.Duration
}

const (
	denialLife   = time.Second
	denialShards = 16 // so that one id's flood is not in the way of the others
)

func newDenials(size int) *denials {
	d := &denials{base: time.Now(), seed: maphash.MakeSeed(), shards: make([]denialShard, min(size, denialShards))}
	d.size = size / len(d.shards)
	for i := range d.shards {
		d.shards[i].byID = make(map[string]denial)
	}
	return d
}

func (d *denials) shard(id string) *denialShard {
	return &d.shards[maphash.String(d.seed, id)%uint64(len(d.shards))]
}

// remember keeps a denial, in the place of another if need be.
func (d *denials) remember(id string, limits []Limit, n int64, r Result) {
	now := time.Since(d.base)
	s := d.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byID[id]; !known && len(s.byID) >= d.size {
		for other := range s.byID {
			delete(s.byID, other)
			break
		}
	}
	s.byID[id] = denial{limits: limits, n: n, result: r, at: now, until: now + min(r.RetryAfter, denialLife)}
}

// recall answers from memory, with the times that are left.
func (d *denials) recall(id string, limits []Limit, n int64) (Result, bool) {
	now := time.Since(d.base)
	s := d.shard(id)
	s.mu.Lock()
	e, ok := s.byID[id]
	if ok && now >= e.until {
		delete(s.byID, id)
		ok = false
	}
	s.mu.Unlock()
	if !ok || e.n != n || !slices.Equal(e.limits, limits) {
		return Result{}, false
	}
	passed := now - e.at
	r := e.result
	r.Reason = ReasonDenyCache
	r.RetryAfter -= passed
	r.ResetAfter = max(r.ResetAfter-passed, r.RetryAfter)
	if r.Rules != nil {
		r.Rules = slices.Clone(r.Rules)
		for i := range r.Rules {
			r.Rules[i].RetryAfter = max(r.Rules[i].RetryAfter-passed, 0)
			r.Rules[i].ResetAfter = max(r.Rules[i].ResetAfter-passed, 0)
		}
	}
	return r, true
}

func (d *denials) forget(id string) {
	s := d.shard(id)
	s.mu.Lock()
	delete(s.byID, id)
	s.mu.Unlock()
}
