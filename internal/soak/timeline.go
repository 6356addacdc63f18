package main

import "fmt"

// timeline is who held one name of a lock, and when, as far as it is certain: a lease that is held at a time was held since
// it was acquired, so what a holder saw at the end of its time with it makes the whole time certain.
type timeline struct {
	capacity int // of a mutex 1
	holds    []Hold
	fence    int64 // the highest with which the resource was written
	token    string
}

// Hold is one lease for a time, in nanoseconds of the machine's clock, which all workers share.
type Hold struct {
	Name     string
	Token    string
	Who      string
	Weight   int // of the lock's capacity
	From, To int64
	Fence    int64
}

// keptHolds is how many of a name are remembered. A worker tells what it knows a tenth of a second later at most, unless it
// is stopped.
const keptHolds = 1000

// add takes in what is known of a lease, and says what is wrong with it.
func (t *timeline) add(h Hold) error {
	if n := len(t.holds); n >= 2*keptHolds {
		t.holds = append([]Hold(nil), t.holds[n-keptHolds:]...)
	}
	at := -1
	for i, other := range t.holds {
		if other.Token == h.Token {
			at = i
			h.From = min(h.From, other.From)
			continue
		}
		if h.Fence == 0 || other.Fence == 0 {
			continue
		}
		switch {
		case other.Fence == h.Fence:
			return fmt.Errorf("two leases with one fence:\n%v\n%v", other, h)
		case other.To < h.From && other.Fence > h.Fence, h.To < other.From && h.Fence > other.Fence:
			return fmt.Errorf("a fence that does not grow:\n%v\n%v", other, h)
		}
	}
	if at >= 0 {
		t.holds[at] = h
	} else {
		t.holds = append(t.holds, h)
	}
	// The most that are held within h at once are held at its beginning, or at that of another.
	for _, moment := range t.holds {
		when := max(moment.From, h.From)
		if moment.To < h.From || moment.From > h.To {
			continue
		}
		sum, who := 0, ""
		for _, other := range t.holds {
			if other.From <= when && when <= other.To {
				sum += other.Weight
				who += fmt.Sprintf("\n%v", other)
			}
		}
		if sum > t.capacity {
			return fmt.Errorf("%d held at once where %d may be:%s", sum, t.capacity, who)
		}
	}
	return nil
}

// write is a write to the resource that the lock protects, which refuses a fence below the highest it has seen.
func (t *timeline) write(fence int64, token string) (accepted bool, err error) {
	switch {
	case fence < t.fence:
		return false, nil
	case fence == t.fence && token != t.token:
		return true, fmt.Errorf("two leases with the fence %d: %s and %s", fence, t.token, token)
	}
	t.fence, t.token = fence, token
	return true, nil
}

func (h Hold) String() string {
	return fmt.Sprintf("%s %s from %d to %d (%.3f ms), fence %d, token %.8s", h.Who, h.Name, h.From, h.To,
		float64(h.To-h.From)/1e6, h.Fence, h.Token)
}
