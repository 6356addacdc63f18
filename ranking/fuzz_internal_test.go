package ranking

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

// Every time lies in one window of each period, in every time zone, and no two windows have one label.
func FuzzWindow(f *testing.F) {
	zones := []string{"UTC", "Asia/Tokyo", "Europe/Berlin", "America/Havana", "Asia/Beirut", "America/Sao_Paulo", "Asia/Kolkata",
		"Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll", "America/St_Johns", "Pacific/Kwajalein"}
	for i := range zones {
		for _, at := range []string{"2026-11-29T10:59:59Z", "2018-11-04T03:00:00Z", "2026-03-29T01:00:00Z", "2011-12-30T10:00:00Z", "1970-01-01T00:00:00Z", "9998-12-31T23:59:59Z"} {
			moment, err := time.Parse(time.RFC3339, at)
			require.NoError(f, err)
			f.Add(moment.Unix(), int64(i), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, sec, nano int64, zone uint8) {
		at := time.Unix(sec%253_000_000_000, nano%1e9)
		if at.Year() < 1970 {
			return
		}
		location, err := time.LoadLocation(zones[int(zone)%len(zones)])
		require.NoError(t, err)
		for _, period := range []Period{Hourly, Daily, Weekly, Monthly} {
			w := Window{Period: period, Location: location}
			start, end := w.bounds(at)
			require.False(t, at.Before(start), "%v begins after %v", start, at)
			require.True(t, at.Before(end), "%v ends before %v", end, at)
			require.True(t, rediskey.ReservedSuffix("x"+w.label(start)), w.label(start))
			for _, same := range []time.Time{start, end.Add(-1)} {
				s, e := w.bounds(same)
				require.True(t, s.Equal(start) && e.Equal(end), "%v to %v, and from %v on %v to %v", start, end, same, s, e)
			}
			next, _ := w.bounds(end)
			require.True(t, next.Equal(end), "after %v to %v comes %v", start, end, next)
			require.NotEqual(t, w.label(start), w.label(end))
		}
	})
}

// A reply of the script is rows, or an error.
func FuzzRows(f *testing.F) {
	for _, text := range append(redistest.Hostile(), "2,0,1,alice,3,bob,2", "0,0,0", "1,0,1,alice,0x1p-2") {
		f.Add(text)
	}
	c := redistest.Mini(f).Client(f)
	b, err := New(c, "board", &Options{Ties: Dense})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		reply := strings.Split(text, ",")
		r, err := b.parseRows(reply)
		if err == nil {
			require.Len(t, r.entries, (len(reply)-3)/2)
		}
	})
}

// A score that has room comes out of every stored value that a time can make of it.
func FuzzPacking(f *testing.F) {
	f.Add(int64(0), int64(86_400_000), int64(1000), 5.0, 0.5)
	f.Add(int64(1764432000000), int64(1764432000001), int64(1), -3.0, 1.0)
	f.Add(int64(0), int64(math.MaxInt64/2), int64(1), 1e300, 0.0)
	f.Fuzz(func(t *testing.T, since, length, resolution int64, score, part float64) {
		if length < 0 || length > 1<<55 || since < 0 || since > 1<<55 || resolution > 1<<40 {
			return
		}
		e := &Earliest{Since: time.UnixMilli(since), Until: time.UnixMilli(since + length), Resolution: time.Duration(resolution) * time.Millisecond}
		p, err := e.packing()
		if err != nil {
			return
		}
		require.LessOrEqual(t, p.bits, 52)
		score = math.Trunc(score)
		if !p.room(score) {
			return
		}
		least, most := p.least(score), p.most(score)
		require.LessOrEqual(t, least, most)
		require.LessOrEqual(t, math.Abs(least), float64(1<<53))
		require.LessOrEqual(t, math.Abs(most), float64(1<<53))
		between := least + math.Trunc((most-least)*min(max(part, 0), 1))
		for _, stored := range []float64{least, between, most} {
			require.Equal(t, score, p.unpack(stored), "%v of %d bits as %v", score, p.bits, stored)
		}
	})
}
