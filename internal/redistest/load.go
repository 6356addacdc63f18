package redistest

import (
	"context"
	"encoding/csv"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Load runs a file of plain Redis commands, one a line, as a released version wrote them: words with a space between them,
// and quotes around one that is empty or holds a space. Lines that begin with # are for the reader.
func Load(t testing.TB, c *redis.Client, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := csv.NewReader(file)
	r.Comma, r.Comment, r.FieldsPerRecord = ' ', '#', -1
	commands, err := r.ReadAll()
	if err != nil || len(commands) == 0 {
		t.Fatalf("%s holds %d commands: %v", path, len(commands), err)
	}
	for _, words := range commands {
		args := make([]any, len(words))
		for i, word := range words {
			args[i] = word
		}
		if err := c.Do(context.Background(), args...).Err(); err != nil {
			t.Fatalf("%s: %q: %v", path, words, err)
		}
	}
}
