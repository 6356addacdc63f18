// Ranking is a leaderboard: every score that is written is ranked at once.
//
//	curl -d '{"player":"alice","score":1500}' localhost:8083/ranking/score
//	curl -d '{"player":"carol","delta":200}' localhost:8083/ranking/increment
//	curl 'localhost:8083/ranking?top=3'
//	curl localhost:8083/ranking/player/alice
package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/ranking"
)

func main() { app.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	client, stop, err := app.Redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	board, err := ranking.New(client, "game", nil)
	if err != nil {
		return err
	}
	s := server{board}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ranking", s.top)
	mux.HandleFunc("GET /ranking/player/{name...}", s.player)
	mux.HandleFunc("POST /ranking/score", s.score)
	mux.HandleFunc("POST /ranking/increment", s.increment)
	return app.Serve(ctx, out, "ranking", app.Getenv("ADDR", "127.0.0.1:8083"), mux)
}

type server struct{ board *ranking.Leaderboard }

// Members are named as "player:alice", so that a board may hold teams beside players.
const prefix = "player:"

type standing struct {
	Player string  `json:"player"`
	Score  float64 `json:"score"`
	Rank   int64   `json:"rank"`
}

func standingOf(e ranking.Entry) standing {
	return standing{strings.TrimPrefix(e.Member, prefix), e.Score, e.Rank}
}

func (s server) top(w http.ResponseWriter, r *http.Request) {
	n := 10
	if text := r.URL.Query().Get("top"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > 1000 {
			app.Fail(w, http.StatusBadRequest, "top must be a number from 1 to 1000")
			return
		}
	}
	entries, err := s.board.Top(r.Context(), n)
	if err != nil {
		app.Unavailable(w, err)
		return
	}
	standings := make([]standing, len(entries))
	for i, e := range entries {
		standings[i] = standingOf(e)
	}
	app.Reply(w, http.StatusOK, standings)
}

func (s server) player(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "" {
		app.Fail(w, http.StatusBadRequest, "the player's name must not be empty")
		return
	}
	found, err := s.board.Get(r.Context(), prefix+name)
	answer(w, found.Entry, err)
}

func (s server) score(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Player string   `json:"player"`
		Score  *float64 `json:"score"`
	}
	if !app.Decode(w, r, &in) || !given(w, in.Player, "score", in.Score) {
		return
	}
	update, err := s.board.Set(r.Context(), prefix+in.Player, *in.Score)
	answer(w, update.Entry, err)
}

func (s server) increment(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Player string   `json:"player"`
		Delta  *float64 `json:"delta"`
	}
	if !app.Decode(w, r, &in) || !given(w, in.Player, "delta", in.Delta) {
		return
	}
	update, err := s.board.Increment(r.Context(), prefix+in.Player, *in.Delta)
	answer(w, update.Entry, err)
}

// given answers 400 unless both fields are there.
func given(w http.ResponseWriter, player, field string, value *float64) bool {
	switch {
	case player == "":
		app.Fail(w, http.StatusBadRequest, "player must not be empty")
	case value == nil:
		app.Fail(w, http.StatusBadRequest, field+" is missing")
	default:
		return true
	}
	return false
}

func answer(w http.ResponseWriter, e ranking.Entry, err error) {
	switch {
	case errors.Is(err, ranking.ErrNotFound):
		app.Fail(w, http.StatusNotFound, "no such player")
	case errors.Is(err, ranking.ErrScore):
		app.Fail(w, http.StatusBadRequest, err.Error())
	case err != nil:
		app.Unavailable(w, err)
	default:
		app.Reply(w, http.StatusOK, standingOf(e))
	}
}
