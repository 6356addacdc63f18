package ranking

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Ties says how equal scores rank. Rows of equal rank are listed in Redis' own order: names descending on a descending
// board, ascending on an ascending one.
//
// All writes to a board go by one rule. What Ordinal, Competition or Dense wrote can be read by Ordinal and Competition, of
// the same Order; Dense and EarliestFirst read only what they wrote themselves.
type Ties uint8

const (
	DefaultTies   Ties = iota // Ordinal; Competition on a sharded board
	Ordinal                   // 1 2 3 4, in Redis' own order (ZREVRANK, ZRANK); the fastest
	Competition               // 1 2 2 4, a rank is a function of the score alone
	Dense                     // 1 2 2 3, the number of better scores; a second sorted set has each score once
	EarliestFirst             // 1 2 3 4, who reached the score first is ahead; needs Options.Earliest
)

// tiesName is how the scripts call a rule.
var tiesName = [...]string{Ordinal: "ordinal", Competition: "competition", Dense: "dense", EarliestFirst: "earliest"}

// Earliest is the room that EarliestFirst packs the time into, beside an integer score, in the one float64 that Redis
// keeps: b bits for the (Until - Since) / Resolution ticks leave scores from -2^(53-b) to 2^(53-b) - 1. A day in seconds
// takes 17 bits and leaves scores of 36 bits; a year takes 25 and leaves 28.
//
// The first write records it with the board, and a process that gives another is refused with ErrUnsupported. The time is
// the server's, of the write; one outside of Since to Until is ErrWindowClosed.
type Earliest struct {
	// Since is the beginning, and Until the end, which is not included. Both must be set.
	Since, Until time.Time

	// Resolution is how long a tick is: members that reach a score within one tick tie in Redis' order. Defaults to 1 s; whole
	// milliseconds.
	Resolution time.Duration
}

// packing is an Earliest in numbers; zero where a board packs nothing.
type packing struct {
	bits   int
	record string // as the scripts take it and the board keeps it
}

func (e *Earliest) packing() (packing, error) {
	if e == nil {
		return packing{}, errors.New("Options.Earliest is nil, must be set with Ties EarliestFirst")
	}
	resolution := e.Resolution
	if resolution == 0 {
		resolution = time.Second
	}
	if resolution < time.Millisecond || resolution%time.Millisecond != 0 {
		return packing{}, fmt.Errorf("Options.Earliest.Resolution is %v, must be whole milliseconds", resolution)
	}
	since, until := e.Since.UnixMilli(), e.Until.UnixMilli()
	if e.Since.IsZero() || e.Until.IsZero() || until <= since {
		return packing{}, fmt.Errorf("Options.Earliest.Until is %v, must be after Since, %v, and both must be set", e.Until, e.Since)
	}
	ticks := (until - since + resolution.Milliseconds() - 1) / resolution.Milliseconds()
	p := packing{bits: bits.Len64(uint64(ticks - 1))}
	if p.bits > 52 {
		return packing{}, fmt.Errorf("Options.Earliest has %d ticks, must have at most 2^52", ticks)
	}
	p.record = fmt.Sprintf("%d:%d:%d:%d", since, until, resolution.Milliseconds(), p.bits)
	return p, nil
}

// room says whether an integer score can be packed.
func (p packing) room(score float64) bool {
	most := math.Ldexp(1, 53-p.bits)
	return score >= -most && score < most
}

// unpack is the score of a stored value.
func (p packing) unpack(stored float64) float64 {
	if p.record == "" {
		return stored
	}
	return math.Floor(math.Ldexp(stored, -p.bits))
}

// least and most are the stored values that a score's times lie between.
func (p packing) least(score float64) float64 {
	if p.record == "" || math.IsInf(score, 0) {
		return score
	}
	return math.Ldexp(math.Ceil(score), p.bits)
}

func (p packing) most(score float64) float64 {
	if p.record == "" || math.IsInf(score, 0) {
		return score
	}
	return math.Ldexp(math.Floor(score)+1, p.bits) - 1
}
