package ranking

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/rediskey"
)

const (
	maxShards = 1024
	maxDepth  = 1000 // rows of each shard in one reply
)

// sharded is what a board of several keys has beside its settings.
type sharded struct {
	homes   []*Leaderboard // Ordinal, as their own ranks do not matter
	record  any            // the key that says how many shards there are
	count   string
	claimed atomic.Bool
}

// NewSharded makes a Leaderboard that is spread over shards keys, and so over the nodes of a cluster: for boards that are too
// large or too busy for one. A member's shard is the FNV-1a hash of its name modulo shards. Ranks stay exact: 1 + the
// number of better scores on all shards, which is why Ties is Competition.
//
// The first write records the number of shards, and a Leaderboard with another is refused with ErrUnsupported. A name may
// not have a {tag}, as the shards have their own. There are at most 1024.
//
// Set takes one round trip, or two with a TTL; Increment, IncrementOnce, Best and Get take two, Around three, All one per 500
// members of each shard and one, SetMany and BestMany one per 1000 members of each shard and one, Clear one per shard and two,
// and a process' first write one more; Top, Page and ByScore read that many rows of every shard. Reads are no snapshot: shards
// are read one after the other, so a rank can be off by writes of that moment. If the second round trip fails after the first
// has written, the Update has Score and Changed, and Rank and Total are 0, beside the error, which of an Increment is
// ErrUnknown. Beyond a depth of 1000, Top, Page, Around, ByScore and Watch are ErrTooDeep. Range, GetMany, Trim and Merge do not
// exist here: ErrUnsupported.
func NewSharded(client redispatterns.Client, name string, shards int, opts *Options) (*Leaderboard, error) {
	b, err := newSharded(client, name, shards, opts)
	if err != nil {
		return nil, fmt.Errorf("ranking: new sharded %q: %w", name, err)
	}
	return b, nil
}

func newSharded(client redispatterns.Client, name string, shards int, opts *Options) (*Leaderboard, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Ties == DefaultTies {
		o.Ties = Competition
	}
	b, err := newBoard(client, name, &o)
	switch {
	case err != nil:
		return nil, err
	case shards < 1 || shards > maxShards:
		return nil, fmt.Errorf("shards is %d, must be from 1 to %d", shards, maxShards)
	case o.Ties != Competition:
		return nil, fmt.Errorf("Options.Ties is %d, must be Competition on a sharded board", o.Ties)
	case o.MaxSize != 0:
		return nil, fmt.Errorf("Options.MaxSize is %d, must be 0 on a sharded board", o.MaxSize)
	case strings.ContainsRune(b.key, '{'):
		return nil, errors.New("the name of a sharded board has no {")
	}
	s := &sharded{record: b.companion("~n"), count: strconv.Itoa(shards)}
	for _, tag := range tags(shards) {
		home := *b
		home.options.Ties = Ordinal
		home.settings = home.options.settings()
		home.key = b.key + "~s{" + tag + "}"
		home.setKeys()
		s.homes = append(s.homes, &home)
	}
	b.shards = s
	return b, nil
}

// tags are numbers whose slots lie in the middle of equal parts of all slots, so that every master of an evenly divided
// cluster has its share. They may never change: they are in the keys.
func tags(n int) []string {
	found, left := make([]string, n), n
	for k := 0; left > 0; k++ {
		tag := strconv.Itoa(k)
		slot := rediskey.Slot(tag)
		part := slot * n / rediskey.Slots
		middle := (2*part + 1) * rediskey.Slots / (2 * n)
		if off := slot - middle; found[part] == "" && max(off, -off) <= rediskey.Slots/(8*n) {
			found[part] = tag
			left--
		}
	}
	return found
}

func (s *sharded) home(member string) *Leaderboard {
	h := fnv.New32a()
	_, _ = h.Write([]byte(member))
	return s.homes[int(h.Sum32()%uint32(len(s.homes)))]
}

// claim records the number of shards before the first write, or learns that there is another.
func (s *sharded) claim(ctx context.Context, b *Leaderboard) error {
	if s.claimed.Load() {
		return nil
	}
	get := s.recorded(ctx)
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, s.renew(ctx, b))
		return p.Process(ctx, get)
	})
	if err := s.verify(get); err != nil {
		return err
	}
	s.claimed.Store(true)
	return nil
}

// renew writes the record where there is none; a TTL is renewed by expire.
func (s *sharded) renew(ctx context.Context, b *Leaderboard) redis.Cmder {
	if b.options.TTL > 0 {
		return redis.NewStatusCmd(ctx, "set", s.record, s.count, "nx", "px", b.ttl)
	}
	return redis.NewStatusCmd(ctx, "set", s.record, s.count, "nx")
}

func (s *sharded) recorded(ctx context.Context) *redis.StringCmd {
	return redis.NewStringCmd(ctx, "get", s.record)
}

// check is for operations that ask the shards one by one.
func (s *sharded) check(ctx context.Context, b *Leaderboard) error {
	get := s.recorded(ctx)
	_ = b.client.Process(ctx, get)
	return s.verify(get)
}

func (s *sharded) verify(get *redis.StringCmd) error {
	switch err := get.Err(); {
	case errors.Is(err, redis.Nil): // nothing was written yet
		return nil
	case err != nil:
		return err
	case get.Val() != s.count:
		s.claimed.Store(false) // the board was cleared and made anew: the next write is refused before it is sent
		return fmt.Errorf("%w: it has %.64q shards, not %s", ErrUnsupported, get.Val(), s.count)
	}
	return nil
}

// place asks every shard how many scores are better, and how many members there are.
type place struct {
	better, cards []*redis.IntCmd
	record        *redis.StringCmd
}

func (s *sharded) place(ctx context.Context, b *Leaderboard, score string) *place {
	bounds := b.betterThan(score)
	p := &place{record: s.recorded(ctx)}
	for _, home := range s.homes {
		p.better = append(p.better, redis.NewIntCmd(ctx, "zcount", home.boxed, bounds[0], bounds[1]))
		p.cards = append(p.cards, redis.NewIntCmd(ctx, "zcard", home.boxed))
	}
	return p
}

func (p *place) queue(ctx context.Context, pipe redis.Pipeliner) error {
	for i := range p.cards {
		_ = pipe.Process(ctx, p.better[i])
		_ = pipe.Process(ctx, p.cards[i])
	}
	return pipe.Process(ctx, p.record)
}

func (p *place) result(s *sharded, member string, score float64) (Standing, error) {
	better, err := sum(p.better)
	if err != nil {
		return Standing{}, err
	}
	total, err := sum(p.cards)
	if err != nil {
		return Standing{}, err
	}
	if err := s.verify(p.record); err != nil {
		return Standing{}, err
	}
	return Standing{Entry: Entry{Rank: better + 1, Member: member, Score: score}, Total: total}, nil
}

func sum(cmds []*redis.IntCmd) (int64, error) {
	var n int64
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return 0, err
		}
		n += cmd.Val()
	}
	return n, nil
}

// expire renews the TTL of everything.
func (s *sharded) expire(ctx context.Context, b *Leaderboard, p redis.Pipeliner) {
	if b.options.TTL == 0 {
		return
	}
	_ = p.Process(ctx, redis.NewIntCmd(ctx, "pexpire", s.record, b.ttl))
	for _, home := range s.homes {
		_ = p.Process(ctx, redis.NewIntCmd(ctx, "pexpire", home.boxed, b.ttl))
	}
}

// set knows the score beforehand, so the write and all the questions are one round trip.
func (s *sharded) set(ctx context.Context, b *Leaderboard, member string, score float64, text string) (Update, error) {
	if b.options.TTL > 0 {
		return s.write(ctx, b, member, func(home *Leaderboard) (Update, error) { return home.put(ctx, set, member, score) })
	}
	if err := s.claim(ctx, b); err != nil {
		return Update{}, err
	}
	zadd := redis.NewIntCmd(ctx, "zadd", s.home(member).boxed, "ch", text, member)
	after := s.place(ctx, b, text)
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, s.renew(ctx, b))
		_ = p.Process(ctx, zadd)
		return after.queue(ctx, p)
	})
	if err := zadd.Err(); err != nil {
		return Update{}, err
	}
	u := Update{Standing: Standing{Entry: Entry{Member: member, Score: score + 0}}, Changed: zadd.Val() == 1}
	standing, err := after.result(s, member, score+0)
	if err == nil {
		u.Standing = standing
	}
	return u, err
}

// many writes each member to its own shard, as many at a time as one command takes of each.
func (s *sharded) many(ctx context.Context, b *Leaderboard, v verb, scores []MemberScore) (changed int64, err error) {
	if len(scores) == 0 {
		return 0, nil
	}
	if err := s.claim(ctx, b); err != nil {
		return 0, err
	}
	of := map[*Leaderboard][]MemberScore{}
	for _, score := range scores {
		home := s.home(score.Member)
		of[home] = append(of[home], score)
	}
	for home, scores := range of {
		for chunk := range slices.Chunk(scores, chunkSize) {
			n, err := home.putMany(ctx, v, chunk)
			if err != nil {
				return changed, err
			}
			changed += n
		}
	}
	record := s.recorded(ctx)
	_, err = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		s.expire(ctx, b, p)
		_ = p.Process(ctx, s.renew(ctx, b))
		return p.Process(ctx, record)
	})
	if err == nil || errors.Is(err, redis.Nil) { // the record was there
		err = s.verify(record)
	}
	return changed, err
}

func (s *sharded) remove(ctx context.Context, b *Leaderboard, members []string) (int64, error) {
	if err := s.claim(ctx, b); err != nil {
		return 0, err
	}
	cmds := make([]*redis.IntCmd, len(members))
	record := s.recorded(ctx)
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, member := range members {
			cmds[i] = redis.NewIntCmd(ctx, "zrem", s.home(member).boxed, member)
			_ = p.Process(ctx, cmds[i])
		}
		return p.Process(ctx, record)
	})
	n, err := sum(cmds)
	if err != nil {
		return 0, err
	}
	return n, s.verify(record)
}

// clear removes the record last, so that no other number of shards begins beside what is left of this one.
func (s *sharded) clear(ctx context.Context, b *Leaderboard) error {
	if err := s.check(ctx, b); err != nil {
		return err
	}
	s.claimed.Store(false)
	for _, home := range s.homes {
		if err := home.Clear(ctx); err != nil {
			return err
		}
	}
	_, err := b.int(ctx, "unlink", s.record)
	return err
}

// write writes to the member's own shard, and then asks all of them.
func (s *sharded) write(ctx context.Context, b *Leaderboard, member string, do func(home *Leaderboard) (Update, error)) (Update, error) {
	if err := s.claim(ctx, b); err != nil {
		return Update{}, err
	}
	u, err := do(s.home(member))
	if err != nil {
		return Update{}, err
	}
	u.Rank, u.Total = 0, 0
	after := s.place(ctx, b, formatBound(u.Score))
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, s.renew(ctx, b))
		s.expire(ctx, b, p)
		return after.queue(ctx, p)
	})
	standing, err := after.result(s, member, u.Score)
	if err == nil {
		u.Standing = standing
	}
	return u, err
}
