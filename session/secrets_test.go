package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

// Everything that Redis holds, and everything that prints a session, is without its secret.
func TestSecretIsNowhere(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		sess := create(t, store, tanaka)
		_, secret, _ := strings.Cut(sess.Token(), ".")
		loaded, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		loaded.Data.Role = "member"
		require.NoError(t, store.Save(ctx, loaded))

		var dump strings.Builder
		for _, key := range c.Keys(ctx, "*").Val() {
			switch c.Type(ctx, key).Val() {
			case "hash":
				fmt.Fprintln(&dump, key, c.HGetAll(ctx, key).Val())
			case "zset":
				fmt.Fprintln(&dump, key, c.ZRange(ctx, key, 0, -1).Val())
			default:
				t.Fatalf("key %q", key)
			}
		}
		require.Contains(t, dump.String(), "tanaka")
		require.NotContains(t, dump.String(), secret)

		for _, sess := range []*session.Session[user]{sess, loaded} {
			requireHidden(t, secret, sess)
		}
	})
}

func requireHidden(t *testing.T, secret string, sess *session.Session[user]) {
	t.Helper()
	type holder struct {
		Public  *session.Session[user]
		private session.Session[user]
	}
	for _, v := range []any{sess, *sess, holder{sess, *sess}, &holder{sess, *sess}, []any{*sess}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			out := fmt.Sprintf(verb, v)
			require.NotContains(t, out, secret, verb)
			require.NotContains(t, out, fmt.Sprintf("%x", secret), verb)
		}
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NotContains(t, string(text), secret)
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("login", "session", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("login", "session", v)
		require.NotContains(t, log.String(), secret)
	}
	require.Equal(t, "session "+sess.ID, fmt.Sprintf("%+v", *sess))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("login", "session", sess)
	require.Contains(t, log.String(), "session.id="+sess.ID)
}

// No error tells the secret, whatever goes wrong.
func TestSecretIsInNoError(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for _, every := range stores {
			store := newStore[user](t, c, &session.Options{TouchEvery: every})
			sess := create(t, store, tanaka)
			_, secret, _ := strings.Cut(sess.Token(), ".")
			require.NoError(t, c.Set(ctx, "session:"+sess.ID, "theirs", 0).Err())
			ops := operations(store, sess)
			ops["token as ID"] = func(ctx context.Context) error { return store.Touch(ctx, sess.Token()) }
			for name, op := range ops {
				if err := op(ctx); name != "create" {
					require.Error(t, err)
					require.NotContains(t, fmt.Sprintf("%+v", err), secret, name)
				}
			}
		}
	})
}
