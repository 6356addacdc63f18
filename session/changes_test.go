package session_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

// roles write themselves in the order of a map, and numbered, so never the same way twice.
type roles map[string]bool

var timesWritten atomic.Int64

func (r roles) MarshalText() ([]byte, error) {
	var names []string
	for name := range r {
		names = append(names, name)
	}
	return fmt.Appendf(nil, "%d:%s", timesWritten.Add(1), strings.Join(names, ",")), nil
}

func (r *roles) UnmarshalText(text []byte) error {
	*r = roles{}
	_, names, _ := strings.Cut(string(text), ":")
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			(*r)[name] = true
		}
	}
	return nil
}

// What is written anew in another way has not changed: a Save of another field does not take it back.
func TestTextThatIsNeverTheSame(t *testing.T) {
	t.Parallel()
	type account struct {
		Name  string `redis:"name"`
		Roles roles  `redis:"roles"`
		Old   *roles `redis:"old"`
	}
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[account](t, c, nil)
		created := create(t, store, account{Name: "tanaka", Roles: roles{"admin": true, "member": true}, Old: &roles{"guest": true}})
		loaded, err := store.Load(ctx, created.Token())
		require.NoError(t, err)
		other, err := store.Load(ctx, created.Token())
		require.NoError(t, err)
		delete(other.Data.Roles, "admin")
		(*other.Data.Old)["admin"] = true
		require.NoError(t, store.Save(ctx, other))
		for _, slow := range []*session.Session[account]{created, loaded} {
			slow.Data.Name += "x"
			require.NoError(t, store.Save(ctx, slow))
			now, err := store.ByID(ctx, slow.ID)
			require.NoError(t, err)
			require.Equal(t, account{slow.Data.Name, roles{"member": true}, &roles{"guest": true, "admin": true}}, now.Data)
		}
		loaded.Data.Roles, loaded.Data.Old = nil, nil
		require.NoError(t, store.Save(ctx, loaded))
		now, err := store.ByID(ctx, loaded.ID)
		require.NoError(t, err)
		require.Empty(t, now.Data.Roles)
		require.Nil(t, now.Data.Old)
	})
}
