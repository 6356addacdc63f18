package ranking

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing is kept of a board that nobody watches any more.
func TestNothingIsLeftOfWatchers(t *testing.T) {
	t.Parallel()
	a, err := New(noClient{}, t.Name(), nil)
	require.NoError(t, err)
	b, err := New(noClient{}, t.Name(), nil)
	require.NoError(t, err)
	kept := func() *watched {
		watching.mu.Lock()
		defer watching.mu.Unlock()
		return watching.boards[a.sight()]
	}
	w := a.joinWatchers(3)
	require.Same(t, w, b.joinWatchers(10))
	a.leaveWatchers(w, 3)
	require.Same(t, w, kept(), "one is left")
	_, _, width := w.fresh(1, 0)
	require.Equal(t, 10, width)
	b.leaveWatchers(w, 10)
	require.Nil(t, kept())
}
