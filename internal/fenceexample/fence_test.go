package fenceexample_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

func TestMain(m *testing.M) {
	examples := miniredis.NewMiniRedis()
	examples.ClockTTL(true)
	if err := examples.Start(); err != nil {
		panic(err)
	}
	addr = examples.Addr()
	redistest.Main(m)
}

// documents is a database whose connections see the same, with one document in it, "7".
func documents(t *testing.T) *sql.DB {
	t.Helper()
	path := filepath.ToSlash(filepath.Join(t.TempDir(), "documents.db"))
	db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(60000)&_pragma=synchronous(off)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.Exec(schema + `INSERT INTO documents (id, body) VALUES ('7', 'draft')`)
	require.NoError(t, err)
	return db
}

// stored is what a document is, and the fence that is kept with it.
func stored(t *testing.T, db *sql.DB, id string) (body string, fence int64) {
	t.Helper()
	require.NoError(t, db.QueryRow(`SELECT body, fence FROM documents WHERE id = $1`, id).Scan(&body, &fence))
	return body, fence
}

// changed runs a statement and says how many rows it changed.
func changed(t *testing.T, db *sql.DB, statement string, args ...any) int64 {
	t.Helper()
	result, err := db.Exec(statement, args...)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	return n
}

// A holder is paused past its lease: Redis' clock goes on and its own does not, so that it still believes in the lease.
// The database refuses it, and what the next holder wrote stands.
func TestPausedHolder(t *testing.T) {
	s, db, ctx := redistest.Mini(t), documents(t), context.Background()
	const ttl = time.Hour
	hold := func() *lock.Lease {
		t.Helper()
		locks, err := lock.New(s.Client(t), &lock.Options{TTL: ttl, NoRenew: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = locks.Close() })
		lease, err := locks.Mutex("document:7").TryLock(ctx)
		require.NoError(t, err)
		return lease
	}

	paused := hold()
	before, err := read(ctx, db, "7", paused.Fence())
	require.NoError(t, err)
	s.Advance(t, ttl)
	next := hold()
	body, err := read(ctx, db, "7", next.Fence())
	require.NoError(t, err)

	require.True(t, paused.Held())
	require.ErrorIs(t, write(ctx, db, "7", before+", too late", paused.Fence()), errLate, "the next has only read as yet")
	require.NoError(t, write(ctx, db, "7", body+", by the next", next.Fence()))
	require.ErrorIs(t, write(ctx, db, "7", before+", too late", paused.Fence()), errLate)
	_, err = read(ctx, db, "7", paused.Fence())
	require.ErrorIs(t, err, errLate)
	require.Zero(t, changed(t, db, upsert, "7", "too late", paused.Fence()))

	body, fence := stored(t, db, "7")
	require.Equal(t, "draft, by the next", body)
	require.Equal(t, next.Fence(), fence)
	require.ErrorIs(t, paused.Release(ctx), lock.ErrLost)
	require.NoError(t, next.Release(ctx))
}

// One holder writes as often as it likes, the same as before too, as where an answer was lost.
func TestEqualFence(t *testing.T) {
	db, ctx := documents(t), context.Background()
	for _, body := range []string{"one", "two", "two"} {
		require.NoError(t, write(ctx, db, "7", body, 5))
		require.EqualValues(t, 1, changed(t, db, upsert, "7", body, 5))
		got, err := read(ctx, db, "7", 5)
		require.NoError(t, err)
		require.Equal(t, body, got)
	}
}

// An UPDATE of a row that is not there looks like one that comes too late. An upsert makes the row, with its fence.
func TestNoRowYet(t *testing.T) {
	db, ctx := documents(t), context.Background()
	require.ErrorIs(t, write(ctx, db, "8", "new", 5), errLate)
	_, err := read(ctx, db, "8", 5)
	require.ErrorIs(t, err, errLate)

	require.EqualValues(t, 1, changed(t, db, upsert, "8", "new", 5))
	require.Zero(t, changed(t, db, upsert, "8", "too late", 4))
	body, fence := stored(t, db, "8")
	require.Equal(t, "new", body)
	require.EqualValues(t, 5, fence)
	require.EqualValues(t, 1, changed(t, db, upsert, "8", "newer", 6))
	require.ErrorIs(t, write(ctx, db, "8", "too late", 5), errLate)
}

// Two write at once, each by connections of its own: from the first answer that the later one has, the earlier is refused.
func TestTwoWriters(t *testing.T) {
	for name, put := range map[string]func(db *sql.DB, body string, fence int64) error{
		"update": func(db *sql.DB, body string, fence int64) error {
			return write(context.Background(), db, "7", body, fence)
		},
		"upsert": func(db *sql.DB, body string, fence int64) error {
			result, err := db.Exec(upsert, "7", body, fence)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil || n == 1 {
				return err
			}
			return errLate
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := documents(t)
			require.NoError(t, put(db, "earlier", 5))
			var writers sync.WaitGroup
			var answered, done atomic.Bool
			var earlier, later error
			writers.Go(func() {
				defer done.Store(true)
				for refused := 0; refused < 20 && earlier == nil; {
					over := answered.Load()
					switch err := put(db, "earlier", 5); {
					case errors.Is(err, errLate):
						refused++
					case err != nil:
						earlier = err
					case over:
						earlier = errors.New("accepted after a write of the later holder")
					}
				}
			})
			writers.Go(func() {
				for !done.Load() && later == nil {
					later = put(db, "later", 6)
					answered.Store(true)
				}
			})
			writers.Wait()
			require.NoError(t, earlier)
			require.NoError(t, later)
			body, fence := stored(t, db, "7")
			require.Equal(t, "later", body)
			require.EqualValues(t, 6, fence)
		})
	}
}
