package fenceexample_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/ncruces/go-sqlite3/driver" // SQLite without cgo
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/lock"
)

// addr is where the example finds a Redis.
var addr string

// schema is a table as it was, and the column that it needs. The statements here are written as for PostgreSQL; SQLite takes them
// too, as long as $1, $2 and $3 come in this order.
const schema = `
CREATE TABLE documents (id TEXT PRIMARY KEY, body TEXT NOT NULL);
ALTER TABLE documents ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
`

var errLate = errors.New("a later holder has been here, or there is no such document")

// read stores the fence before it reads: from here on every earlier holder is refused.
func read(ctx context.Context, db *sql.DB, id string, fence int64) (body string, err error) {
	const stamp = `UPDATE documents SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING body`
	err = db.QueryRowContext(ctx, stamp, fence, id).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		err = errLate
	}
	return body, err
}

// write changes no row where a later holder has stored its fence, and that is how one learns of it.
func write(ctx context.Context, db *sql.DB, id, body string, fence int64) error {
	const update = `UPDATE documents SET body = $1, fence = $2 WHERE id = $3 AND fence <= $2`
	result, err := db.ExecContext(ctx, update, body, fence, id)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errLate
}

// upsert is the statement of write where the row may not be there yet.
const upsert = `
INSERT INTO documents (id, body, fence) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET body = excluded.body, fence = excluded.fence WHERE documents.fence <= excluded.fence
`

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	db, _ := sql.Open("sqlite3", ":memory:")
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	ctx := context.Background()
	_, _ = db.ExecContext(ctx, schema+`INSERT INTO documents (id, body) VALUES ('7', 'draft')`)

	paused, _ := locks.Mutex("document:7").Lock(ctx)
	_ = locks.Mutex("document:7").ForceUnlock(ctx) // as if its lease had lapsed while it was paused

	err := lock.Do(ctx, locks.Mutex("document:7").Lock, func(ctx context.Context, lease *lock.Lease) error {
		body, err := read(ctx, db, "7", lease.Fence())
		if err != nil {
			return err
		}
		return write(ctx, db, "7", body+", revised", lease.Fence())
	})
	fmt.Println(err)
	fmt.Println(write(ctx, db, "7", "written too late", paused.Fence()))

	var body string
	_ = db.QueryRowContext(ctx, `SELECT body FROM documents WHERE id = '7'`).Scan(&body)
	fmt.Println(body)
	// Output:
	// <nil>
	// a later holder has been here, or there is no such document
	// draft, revised
}
