package main

import (
	"context"
	"errors"
	"log"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/ranking"
)

var players = []string{
	"sakura", "haruto", "yui", "ren", "aoi", "sota", "hina", "minato",
	"rin", "yuto", "mei", "kaito", "himari", "riku", "koharu", "daiki",
}

const (
	maxPlayers = 60
	member     = "player:" // before each name
)

// board is a ranking on which scores arrive by themselves.
type board struct {
	hub    *hub
	ties   map[string]*ranking.Leaderboard // the same board, by how equal scores rank
	writes *ranking.Leaderboard            // the Dense one: what it writes the others can read too, but not the reverse

	telling sync.Mutex

	mu      sync.Mutex
	chosen  string  // of ties
	stopped bool    // no scores arrive
	player  string  // who scored last
	delta   float64 // and how much
}

type row struct {
	Rank   int64   `json:"rank"`
	Player string  `json:"player"`
	Score  float64 `json:"score"`
	Delta  float64 `json:"delta,omitempty"`
}

func rowOf(e ranking.Entry) row {
	return row{Rank: e.Rank, Player: strings.TrimPrefix(e.Member, member), Score: e.Score}
}

func newBoard(client *redis.Client, h *hub) (*board, error) {
	b := &board{hub: h, ties: map[string]*ranking.Leaderboard{}, chosen: "ordinal"}
	for name, ties := range map[string]ranking.Ties{
		"ordinal": ranking.Ordinal, "competition": ranking.Competition, "dense": ranking.Dense,
	} {
		var err error
		if b.ties[name], err = ranking.New(client, "live", &ranking.Options{Ties: ties, TTL: time.Hour}); err != nil {
			return nil, err
		}
	}
	b.writes = b.ties["dense"]
	return b, nil
}

// now is the board to read, with the ties that are chosen now.
func (b *board) now() *ranking.Leaderboard {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ties[b.chosen]
}

// run lets scores arrive while somebody looks. A Redis that cannot answer is asked again.
func (b *board) run(ctx context.Context) error {
	for err := b.begin(ctx); err != nil; err = b.begin(ctx) {
		if pause(ctx, time.Second) != nil {
			return nil
		}
		log.Print(err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.hub.watched():
		}
		if err := pause(ctx, time.Duration(500+rand.IntN(700))*time.Millisecond); err != nil {
			return nil
		}
		b.mu.Lock()
		stopped := b.stopped
		b.mu.Unlock()
		if !stopped {
			if err := b.score(ctx, players[rand.IntN(len(players))], float64(10*(1+rand.IntN(10)))); ignore(ctx, err) != nil {
				log.Print(err)
			}
		}
	}
}

// begin gives each player a score, and tells how the board stands then.
func (b *board) begin(ctx context.Context) error {
	for i, name := range players {
		if _, err := b.writes.Best(ctx, member+name, float64(1000-50*(i/2))); err != nil {
			return err
		}
	}
	return b.tell(ctx)
}

// ignore is err unless it came of the context's end.
func ignore(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// score adds to a player's score, and tells how the board stands then.
func (b *board) score(ctx context.Context, player string, delta float64) error {
	if _, err := b.writes.Increment(ctx, member+player, delta); err != nil {
		return err
	}
	b.mu.Lock()
	b.player, b.delta = player, delta
	b.mu.Unlock()
	return b.tell(ctx)
}

func (b *board) tell(ctx context.Context) error {
	b.telling.Lock() // what is told last was read last
	defer b.telling.Unlock()
	b.mu.Lock()
	chosen, arrive, player, delta := b.chosen, !b.stopped, b.player, b.delta
	b.mu.Unlock()
	all, err := b.ties[chosen].Top(ctx, maxPlayers)
	if err != nil {
		return err
	}
	out := struct {
		Top     []row    `json:"top"`
		Players []string `json:"players"` // to choose from
		Last    *row     `json:"last"`
		Ties    string   `json:"ties"`
		Arrive  bool     `json:"arrive"`
	}{Top: []row{}, Ties: chosen, Arrive: arrive}
	for i, e := range all {
		r := rowOf(e)
		if i < 10 {
			out.Top = append(out.Top, r)
		}
		out.Players = append(out.Players, r.Player)
		if r.Player == player {
			r.Delta = delta
			out.Last = &r
		}
	}
	b.hub.state("ranking", out)
	return nil
}

func (b *board) around(ctx context.Context, player string) (any, error) {
	rows := []row{}
	entries, err := b.now().Around(ctx, member+player, 2, 2)
	if err != nil && !errors.Is(err, ranking.ErrNotFound) {
		return nil, err
	}
	for _, e := range entries {
		rows = append(rows, rowOf(e))
	}
	total, err := b.now().Count(ctx)
	return map[string]any{"player": player, "rows": rows, "total": total}, err
}

func (b *board) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /api/ranking/score", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Player string `json:"player"`
			Points int    `json:"points"`
		}
		if !app.Decode(w, r, &in) {
			return
		}
		if !isName(in.Player) {
			app.Fail(w, http.StatusBadRequest, "player: "+nameRule)
			return
		}
		if in.Points < -1000 || in.Points > 1000 {
			app.Fail(w, http.StatusBadRequest, "points must be from -1000 to 1000")
			return
		}
		_, err := b.now().Get(r.Context(), member+in.Player)
		if errors.Is(err, ranking.ErrNotFound) { // a new player
			var n int64
			if n, err = b.now().Count(r.Context()); err == nil && n >= maxPlayers {
				app.Fail(w, http.StatusConflict, "the board is full")
				return
			}
		}
		if err == nil {
			err = b.score(r.Context(), in.Player, float64(in.Points))
		}
		done(w, err)
	})
	mux.HandleFunc("POST /api/ranking/arrive", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			On *bool `json:"on"`
		}
		if !app.Decode(w, r, &in) {
			return
		}
		if in.On == nil {
			app.Fail(w, http.StatusBadRequest, "on is missing")
			return
		}
		b.mu.Lock()
		b.stopped = !*in.On
		b.mu.Unlock()
		done(w, b.tell(r.Context()))
	})
	mux.HandleFunc("POST /api/ranking/ties", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Ties string `json:"ties"`
		}
		if !app.Decode(w, r, &in) {
			return
		}
		if b.ties[in.Ties] == nil {
			app.Fail(w, http.StatusBadRequest, "ties must be ordinal, competition or dense")
			return
		}
		b.mu.Lock()
		b.chosen = in.Ties
		b.mu.Unlock()
		done(w, b.tell(r.Context()))
	})
}
