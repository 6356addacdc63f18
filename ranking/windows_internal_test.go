package ranking

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	require.NoError(t, err)
	return l
}

func TestWindowBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		period        Period
		zone, at      string
		label         string
		start, finish string
		hours         float64
	}{
		{Hourly, "UTC", "2026-11-29T10:59:59Z", "~h:2026-11-29-10:00", "2026-11-29T10:00:00Z", "2026-11-29T11:00:00Z", 1},
		{Hourly, "Asia/Kolkata", "2026-11-29T10:29:59Z", "~h:2026-11-29-09:30", "2026-11-29T09:30:00Z", "2026-11-29T10:30:00Z", 1},
		{Hourly, "America/New_York", "2026-11-01T05:30:00Z", "~h:2026-11-01-05:00", "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", 1},
		{Hourly, "America/New_York", "2026-11-01T06:30:00Z", "~h:2026-11-01-06:00", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z", 1},
		{Daily, "UTC", "2026-11-29T23:59:59.999999999Z", "~d:2026-11-29", "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", 24},
		{Daily, "America/New_York", "2026-03-08T12:00:00Z", "~d:2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", 23},
		{Daily, "America/New_York", "2026-11-01T12:00:00Z", "~d:2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25},
		{Daily, "America/Havana", "2026-03-08T12:00:00Z", "~d:2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", 23}, // no 00:00
		{Daily, "America/Havana", "2026-11-01T04:30:00Z", "~d:2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25}, // 00:00 twice
		{Daily, "America/Havana", "2026-11-01T05:30:00Z", "~d:2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25},
		{Daily, "Asia/Beirut", "2026-03-29T06:00:00Z", "~d:2026-03-29", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z", 23},
		{Daily, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "~d:2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", 23},
		{Weekly, "UTC", "2026-11-29T23:59:59Z", "~w:2026-48", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z", 168}, // a Sunday
		{Weekly, "UTC", "2026-11-30T00:00:00Z", "~w:2026-49", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z", 168}, // a Monday
		{Weekly, "UTC", "2020-12-31T10:00:00Z", "~w:2020-53", "2020-12-28T00:00:00Z", "2021-01-04T00:00:00Z", 168},
		{Weekly, "UTC", "2021-01-03T10:00:00Z", "~w:2020-53", "2020-12-28T00:00:00Z", "2021-01-04T00:00:00Z", 168},
		{Weekly, "UTC", "2021-01-04T00:00:00Z", "~w:2021-01", "2021-01-04T00:00:00Z", "2021-01-11T00:00:00Z", 168},
		{Weekly, "UTC", "2027-01-01T10:00:00Z", "~w:2026-53", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z", 168},
		{Weekly, "Europe/Berlin", "2026-10-25T12:00:00Z", "~w:2026-43", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z", 169},
		{Monthly, "Asia/Tokyo", "2026-02-28T15:00:00Z", "~m:2026-03", "2026-02-28T15:00:00Z", "2026-03-31T15:00:00Z", 744},
		{Monthly, "UTC", "2028-02-29T15:00:00Z", "~m:2028-02", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", 696},
	} {
		w := Window{Period: c.period, Location: location(t, c.zone)}
		at, err := time.Parse(time.RFC3339Nano, c.at)
		require.NoError(t, err)
		for _, in := range []*time.Location{time.UTC, location(t, "Asia/Tokyo"), w.Location} { // whatever the time's own location is
			start, end := w.bounds(at.In(in))
			require.Equal(t, c.label, w.label(start), c.at)
			require.Equal(t, c.start, start.UTC().Format(time.RFC3339), "%s in %s", c.at, c.zone)
			require.Equal(t, c.finish, end.UTC().Format(time.RFC3339), "%s in %s", c.at, c.zone)
			require.Equal(t, c.hours, end.Sub(start).Hours())
		}
	}
}

// Windows follow each other without a gap, in the zones with the strangest clocks.
func TestWindowsAreAdjacent(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "America/New_York", "America/Havana", "Asia/Beirut", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca", "Asia/Gaza"} {
		for _, period := range []Period{Hourly, Daily, Weekly, Monthly} {
			w := Window{Period: period, Location: location(t, zone)}
			_, at := w.bounds(time.Date(2011, 6, 15, 0, 0, 0, 0, time.UTC))
			labels := map[string]bool{}
			for range 6000 {
				start, end := w.bounds(at)
				require.True(t, start.Equal(at), "%s: %v begins at %v", zone, at, start)
				require.True(t, end.After(start), "%s: %v", zone, at)
				last, _ := w.bounds(end.Add(-1))
				require.True(t, last.Equal(start), "%s: %v", zone, at)
				require.False(t, labels[w.label(start)], "%s: %s comes twice", zone, w.label(start))
				labels[w.label(start)] = true
				if at = end; at.Year() > 2030 {
					break
				}
			}
		}
	}
}
