package ranking

import (
	"fmt"
	"strconv"
)

// Entry is a member, its score and its rank. The first rank is 1.
type Entry struct {
	Rank   int64
	Member string
	Score  float64
}

// Standing is an Entry among Total members.
type Standing struct {
	Entry
	Total int64
}

// Update is what a write did, and where the member stands now.
type Update struct {
	Standing
	// Changed says whether the stored score is another than before, or the member is new. When a reply was lost and the
	// write was sent again, it can be false though the first sending changed the score; the standing is right even so.
	Changed bool
}

// MemberScore is a score that a member is to have.
type MemberScore struct {
	Member string
	Score  float64
}

// Page is a page of a board, and what it takes to show the others.
type Page struct {
	Entries []Entry
	Total   int64 // members
	Pages   int
}

// update reads what write.lua answers of one board.
func (b *Leaderboard) update(member string, reply []string) (Update, error) {
	u := Update{Changed: reply[3] == "1"}
	var err error
	if u.Total, err = strconv.ParseInt(reply[2], 10, 64); err != nil {
		return Update{}, err
	}
	u.Entry, err = b.entry(member, reply[0], reply[1])
	return u, err
}

// entry reads a rank and a stored score; the empty rank is a member that is not there.
func (b *Leaderboard) entry(member, rank, score string) (Entry, error) {
	e := Entry{Member: member}
	if rank == "" {
		return e, ErrNotFound
	}
	var err error
	if e.Rank, err = strconv.ParseInt(rank, 10, 64); err != nil {
		return Entry{}, err
	}
	e.Score, err = b.score(score)
	return e, err
}

func (b *Leaderboard) score(stored string) (float64, error) {
	score, err := strconv.ParseFloat(stored, 64)
	if err != nil {
		return 0, fmt.Errorf("a score that is no number: %w", err)
	}
	return b.packing.unpack(score), nil
}

// rank is the rank of a row, from that of the row before it.
func (t Ties) rank(before Entry, score float64, position int64) int64 {
	switch {
	case t != Competition && t != Dense:
		return position
	case score == before.Score:
		return before.Rank
	case t == Dense:
		return before.Rank + 1
	}
	return position
}
