// Package sessionadapters holds the recipes of docs/sessions-elsewhere.md, so that they compile and are tested: stores for
// other session libraries, on sessions of package session. It is a module of its own, for the sake of its dependencies.
package sessionadapters

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/session"
)

// SCS is a store for github.com/alexedwards/scs/v2. That library makes the tokens itself, so a record is found by the
// index of users, with the token's SHA-256 in the place of the user.
type SCS struct{ store *session.Store[scsRecord] }

type scsRecord struct {
	Token string `redis:"token"` // its SHA-256
	Data  []byte `redis:"data"`
}

// NewSCS makes one. The lifetime is that of the scs.SessionManager.
func NewSCS(client redispatterns.Client, lifetime time.Duration) (*SCS, error) {
	store, err := session.New[scsRecord](client, &session.Options{
		Prefix: "scs:", UserField: "token", IdleTimeout: lifetime, Lifetime: lifetime,
	})
	return &SCS{store}, err
}

// FindCtx implements scs.CtxStore.
func (s *SCS) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	found, err := s.store.List(ctx, digest(token))
	if err != nil || len(found) == 0 {
		return nil, false, err
	}
	return found[len(found)-1].Data.Data, true, nil
}

// CommitCtx implements scs.CtxStore. The whole record is one field: two requests that change it at once do not merge.
func (s *SCS) CommitCtx(ctx context.Context, token string, data []byte, _ time.Time) error {
	found, err := s.store.List(ctx, digest(token))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		_, err := s.store.Create(ctx, scsRecord{digest(token), data})
		return err
	}
	record := found[len(found)-1]
	record.Data.Data = data
	return s.store.Save(ctx, record)
}

// DeleteCtx implements scs.CtxStore.
func (s *SCS) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.store.DestroyAll(ctx, digest(token))
	return err
}

// Find implements scs.Store.
func (s *SCS) Find(token string) ([]byte, bool, error) { return s.FindCtx(context.Background(), token) }

// Commit implements scs.Store.
func (s *SCS) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

// Delete implements scs.Store.
func (s *SCS) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
