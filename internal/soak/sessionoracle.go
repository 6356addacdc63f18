package main

import "time"

// slot is one of the sessions that workers share. When it ends another takes its place.
type slot struct {
	View
	spans    [maxWorkers + 1]span
	rotating int   // 1 + the worker that does
	used     int64 // when the last use began that was acknowledged
}

// View is a session as the oracle sees it, and as a worker has seen it.
type View struct {
	Slot       int
	Generation int    // of the session in its slot
	Version    int    // of its token
	Token, ID  string // "": there is none
	Values     [maxWorkers + 1]int64
	Lows       [maxWorkers + 1]int64 // what the values are at least
	At         int64                 // when the worker asked Redis, or had its answer
	Worker     int                   // that wants to rotate the token
}

// Change is a change of one field.
type Change struct {
	View
	Field int
	Value int64
}

// Session answers what is in a slot.
func (c *Calls) Session(i int, v *View) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	s := &c.o.slots[i]
	s.Slot = i
	*v = s.View
	for f, span := range s.spans {
		v.Lows[f] = span.low
	}
	return nil
}

// Created puts a session into its slot, if that is still empty.
func (c *Calls) Created(v View, kept *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	s := &c.o.slots[v.Slot]
	if s.Token != "" {
		return nil
	}
	v.Generation, v.Version = s.Generation+1, s.Version+1
	*s = slot{View: v, used: v.At}
	*kept = true
	return nil
}

// current is the slot that v shows, if the session in it is still the same.
func (c *Calls) current(v View) *slot {
	if s := &c.o.slots[v.Slot]; s.Token != "" && s.Generation == v.Generation {
		return s
	}
	return nil
}

// Loaded compares what was read with what was acknowledged before, and with what has been sent since.
func (c *Calls) Loaded(v View, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	s := c.current(v)
	if s == nil {
		return nil
	}
	s.used = max(s.used, v.At)
	for f, value := range v.Values {
		if err := (span{v.Lows[f], s.spans[f].high}).check(float64(value)); err != nil {
			c.o.report.violate("session", "field %d of session %s: %v", f, v.ID, err)
		}
	}
	return nil
}

// Missing judges that a session was not found by v.At.
func (c *Calls) Missing(v View, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	s := c.current(v)
	if s == nil || s.Version != v.Version || s.rotating != 0 {
		return nil
	}
	if idle := time.Duration(v.At - s.used); idle < sessionIdle-sessionTouch {
		c.o.report.violate("session", "session %s is lost: not found %v after its last use", v.ID, idle)
	}
	*s = slot{View: View{Slot: s.Slot, Generation: s.Generation, Version: s.Version}}
	return nil
}

// Change answers the value that a field is to have: one more than any before.
func (c *Calls) Change(ch Change, value *int64) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	if s := c.current(ch.View); s != nil {
		s.spans[ch.Field].high++
		*value = s.spans[ch.Field].high
	}
	return nil
}

// Changed takes in that a change was acknowledged.
func (c *Calls) Changed(ch Change, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	s := c.current(ch.View)
	if s == nil {
		return nil
	}
	s.used = max(s.used, ch.At)
	if ch.Field == visits {
		s.spans[visits].low++ // of all that were sent, one more is sure
	} else {
		s.spans[ch.Field].low = ch.Value
	}
	return nil
}

// Unchanged takes in that a visit was surely not counted.
func (c *Calls) Unchanged(ch Change, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	if s := c.current(ch.View); s != nil {
		s.spans[ch.Field].high--
	}
	return nil
}

// Rotate lets one worker at a time change a session's token.
func (c *Calls) Rotate(v View, mine *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	if s := c.current(v); s != nil && s.Version == v.Version && s.rotating == 0 {
		s.rotating = 1 + v.Worker
		*mine = true
	}
	return nil
}

// Rotated takes in which token a session has now; "" says that its worker does not know, and lets it end.
func (c *Calls) Rotated(v View, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	if s := c.current(v); s != nil {
		s.rotating = 0
		s.Version++
		s.Token = v.Token
	}
	return nil
}

// Retire takes a session out of its slot, for a worker that will destroy it.
func (c *Calls) Retire(v View, mine *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	if s := c.current(v); s != nil && s.Version == v.Version && s.rotating == 0 {
		s.Token = ""
		*mine = true
	}
	return nil
}

// buried lets the sessions end whose token a worker changed when it was killed.
func (o *oracle) buried(worker int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.slots {
		if s := &o.slots[i]; s.rotating == 1+worker {
			s.rotating = 0
			s.Version++
			s.Token = ""
		}
	}
}
