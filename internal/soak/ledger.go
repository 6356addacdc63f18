package main

import "fmt"

// span is what a value in Redis can be: at least what was acknowledged, and at most what was sent. Values only grow.
type span struct{ low, high int64 }

func (s span) check(value float64) error {
	if value < float64(s.low) {
		return fmt.Errorf("it is %v, and %d was acknowledged: a write is lost", value, s.low)
	}
	if value > float64(s.high) {
		return fmt.Errorf("it is %v, and no more than %d was sent: a write counted twice", value, s.high)
	}
	return nil
}

// Operation is a write to a board, under the name by which IncrementOnce knows it.
type Operation struct {
	ID     string
	Worker int
	Board  string
	Member string
	Amount int64
	Begun  int64 // nanoseconds
}

// ledger is what the boards must show.
type ledger struct {
	boards  map[string]map[string]*span // by board and member
	pending map[string]Operation
	next    int
}

func newLedger() *ledger {
	return &ledger{boards: map[string]map[string]*span{}, pending: map[string]Operation{}}
}

func (l *ledger) span(board, member string) *span {
	if l.boards[board] == nil {
		l.boards[board] = map[string]*span{}
	}
	if l.boards[board][member] == nil {
		l.boards[board][member] = &span{}
	}
	return l.boards[board][member]
}

// begin notes that op is about to be sent, and names it.
func (l *ledger) begin(op Operation) Operation {
	l.next++
	op.ID = fmt.Sprintf("op%d", l.next)
	l.pending[op.ID] = op
	s := l.span(op.Board, op.Member)
	s.high = op.after(s.high)
	return op
}

// done notes that op was acknowledged.
func (l *ledger) done(id string) {
	op, ok := l.pending[id]
	if !ok {
		return
	}
	delete(l.pending, id)
	s := l.span(op.Board, op.Member)
	s.low = op.after(s.low)
}

// after is what a score is after op.
func (op Operation) after(score int64) int64 {
	if op.Board == bestBoard {
		return max(score, op.Amount)
	}
	return score + op.Amount
}

// lows are what each member of a board has at least.
func (l *ledger) lows(board string) map[string]int64 {
	lows := map[string]int64{}
	for member, s := range l.boards[board] {
		lows[member] = s.low
	}
	return lows
}
