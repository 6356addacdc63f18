package main

import (
	"encoding/json"
	"sync"
	"time"
)

// An event is what the page is told, by name.
type event struct {
	name string
	data []byte
	at   time.Time
}

// hub tells every open page what happens. A page that opens late is first told how things stand and what happened lately.
type hub struct {
	mu      sync.Mutex
	pages   map[chan event]struct{}
	states  map[string]event
	moments []event
	opened  chan struct{} // closed while a page is open
}

const (
	remembered = 45 * time.Second // what a page that opens late is told of
	maxMoments = 4000
	maxPages   = 100
	backlog    = 1000 // events that a slow page may lag behind before it is cut off
)

func newHub() *hub {
	return &hub{pages: map[chan event]struct{}{}, states: map[string]event{}, opened: make(chan struct{})}
}

// state tells how something is from now on.
func (h *hub) state(name string, v any) { h.tell(name, v, true) }

// moment tells what happened.
func (h *hub) moment(name string, v any) { h.tell(name, v, false) }

func (h *hub) tell(name string, v any, state bool) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // v is a type of this program, and has no value that is no JSON
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := event{name, data, time.Now()}
	if state {
		h.states[name] = e
	} else {
		h.moments = append(h.moments, e)
		old := max(0, len(h.moments)-maxMoments)
		for old < len(h.moments) && e.at.Sub(h.moments[old].at) > remembered {
			old++
		}
		h.moments = append(h.moments[:0], h.moments[old:]...)
	}
	for page := range h.pages {
		select {
		case page <- e:
		default: // it comes back by itself, and is told how things stand
			h.drop(page)
		}
	}
}

// open adds a page, and returns what it has missed. ok is false where there are too many.
func (h *hub) open() (page chan event, missed []event, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pages) >= maxPages {
		return nil, nil, false
	}
	missed = append(missed, h.moments...)
	for _, e := range h.states {
		missed = append(missed, e)
	}
	page = make(chan event, backlog)
	h.pages[page] = struct{}{}
	if len(h.pages) == 1 {
		close(h.opened)
	}
	return page, missed, true
}

func (h *hub) close(page chan event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, open := h.pages[page]; open {
		h.drop(page)
	}
}

func (h *hub) drop(page chan event) {
	delete(h.pages, page)
	close(page)
	if len(h.pages) == 0 {
		h.opened = make(chan struct{})
	}
}

// watched is closed while somebody looks. What moves by itself stands still while nobody does.
func (h *hub) watched() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened
}
