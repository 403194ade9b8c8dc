package compaction

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

func at(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestCronMatches(t *testing.T) {
	tests := []struct {
		cron string
		yes  []string
		no   []string
	}{
		{"", nil, []string{"2024-01-01 00:00"}},
		{"  \t ", nil, []string{"2024-01-01 00:00"}},
		{"* * * * *", []string{"2024-01-01 00:00", "2024-12-31 23:59"}, nil},
		{"10 * * * *", []string{"2024-03-05 03:10"}, []string{"2024-03-05 03:11"}},
		{"* 0-7 * * *", []string{"2024-03-05 00:00", "2024-03-05 07:59"}, []string{"2024-03-05 08:00", "2024-03-05 23:00"}},
		{"0 3 5 9 *", []string{"2024-09-05 03:00"}, []string{"2024-08-05 03:00", "2024-09-06 03:00", "2024-09-05 04:00"}},
		{"* 1,3,6-10,20 * * *", []string{"2024-03-05 01:00", "2024-03-05 06:30", "2024-03-05 10:00", "2024-03-05 20:00"},
			[]string{"2024-03-05 02:00", "2024-03-05 05:59", "2024-03-05 11:00", "2024-03-05 00:00"}},
		{"*/4 * * * *", []string{"2024-03-05 00:00", "2024-03-05 00:56"}, []string{"2024-03-05 00:03", "2024-03-05 00:59"}},
		{"*/59 * * * *", []string{"2024-03-05 00:00", "2024-03-05 00:59"}, []string{"2024-03-05 00:58"}},
		{"0 */5 * * *", []string{"2024-03-05 00:00", "2024-03-05 20:00"}, []string{"2024-03-05 04:00"}},
		// Days and months are counted from 1.
		{"0 0 */4 * *", []string{"2024-03-01 00:00", "2024-03-05 00:00", "2024-03-29 00:00"},
			[]string{"2024-03-04 00:00", "2024-03-02 00:00"}},
		{"0 0 1 */4 *", []string{"2024-01-01 00:00", "2024-05-01 00:00", "2024-09-01 00:00"},
			[]string{"2024-04-01 00:00", "2024-12-01 00:00"}},
		{"0 0 * * */4", []string{"2024-03-03 00:00", "2024-03-07 00:00"}, []string{"2024-03-06 00:00"}},
		{"0 0 * * 0", []string{"2024-03-03 00:00"}, []string{"2024-03-04 00:00"}},
		// Day of the month and weekday must both match: 2024-03-13 was a Wednesday.
		{"0 0 13 * 5", []string{"2024-09-13 00:00"}, []string{"2024-03-13 00:00", "2024-03-15 00:00"}},
		{"0 0 31 12 *", []string{"2024-12-31 00:00"}, []string{"2024-12-30 00:00"}},
		{"0 3 * * * 30 4 * * *", []string{"2024-03-05 03:00", "2024-03-05 04:30"},
			[]string{"2024-03-05 03:30", "2024-03-05 04:00"}},
		{"  5\t6  *  * * ", []string{"2024-03-05 06:05"}, []string{"2024-03-05 05:06"}},
		{"3,3 * * * *", []string{"2024-03-05 03:03"}, []string{"2024-03-05 03:04"}},
	}
	for _, tt := range tests {
		c, err := ParseCron(tt.cron)
		if err != nil {
			t.Errorf("%q: %v", tt.cron, err)
			continue
		}
		if c.String() != tt.cron {
			t.Errorf("%q: String %q", tt.cron, c)
		}
		if c.IsEnabled() != (strings.TrimSpace(tt.cron) != "") {
			t.Errorf("%q: IsEnabled %v", tt.cron, c.IsEnabled())
		}
		for _, s := range tt.yes {
			if !c.Matches(at(s)) {
				t.Errorf("%q does not match %s", tt.cron, s)
			}
		}
		for _, s := range tt.no {
			if c.Matches(at(s)) {
				t.Errorf("%q matches %s", tt.cron, s)
			}
		}
	}
}

func TestCronUsesLocation(t *testing.T) {
	c, err := ParseCron("* 3 * * *")
	require.NoError(t, err)
	utc := at("2024-03-05 02:00")
	if c.Matches(utc) || !c.Matches(utc.In(time.FixedZone("east", 3600))) {
		t.Error("the hour is not that of the time's location")
	}
}

func TestParseCronErrors(t *testing.T) {
	const prefix = "cron expression format error: "
	tests := []struct {
		cron string
		want error
		text string
	}{
		{"*", ErrCronFields, "cron expression format error, should only contain 5x fields"},
		{"* * * *", ErrCronFields, ""},
		{"* * * * * *", ErrCronFields, ""},
		{"60 * * * *", ErrCronNumber, prefix + "an integer is expected in a cron expression"},
		{"* 24 * * *", ErrCronNumber, ""},
		{"* * 0 * *", ErrCronNumber, ""},
		{"* * 32 * *", ErrCronNumber, ""},
		{"* * * 0 *", ErrCronNumber, ""},
		{"* * * 13 *", ErrCronNumber, ""},
		{"* * * * 7", ErrCronNumber, ""},
		{"a * * * *", ErrCronNumber, ""},
		{"+1 * * * *", ErrCronNumber, ""},
		{"1, * * * *", ErrCronNumber, ""},
		{"** * * * *", ErrCronNumber, ""},
		{"1,*/2 * * * *", ErrCronNumber, ""},
		{"4294967297 * * * *", ErrCronNumber, ""},
		{"99999999999999999999 * * * *", ErrCronNumber, ""},
		{"* * * jan *", ErrCronNumber, ""},
		{"*/ * * * *", ErrCronInterval, prefix + "an integer is expected after `*/` in a cron expression"},
		{"*/x * * * *", ErrCronInterval, ""},
		{"*/60 * * * *", ErrCronInterval, ""},
		{"*/0 * * * *", ErrCronZeroInterval, prefix + "interval value after `*/` cannot be zero"},
		{"* * * * */0", ErrCronZeroInterval, ""},
		{"* * */0 * *", ErrCronInterval, ""}, // 0 is no day to begin with
		{"5-3 * * * *", ErrCronRange, prefix + "for pattern `l-r` in cron expression, r should be larger than l"},
		{"5-5 * * * *", ErrCronRange, ""},
		{"-5 * * * *", ErrCronRangeLow, prefix + "an integer is expected before `-` in a cron expression"},
		{"5- * * * *", ErrCronRangeHigh, prefix + "an integer is expected after `-` in a cron expression"},
		{"1-60 * * * *", ErrCronRangeHigh, ""},
		{"1-2-3 * * * *", ErrCronRangeHigh, ""},
		{"1-10/2 * * * *", ErrCronRangeHigh, ""},
		{"* * * * * * * * * 9", ErrCronNumber, ""},
	}
	for _, tt := range tests {
		c, err := ParseCron(tt.cron)
		if !errors.Is(err, tt.want) || c.IsEnabled() {
			t.Errorf("%q: %v, want %v", tt.cron, err, tt.want)
		}
		if tt.text != "" && err != nil && err.Error() != tt.text {
			t.Errorf("%q: text %q", tt.cron, err)
		}
	}
}

func TestFiring(t *testing.T) {
	c, err := ParseCron("0,1 3 * * *")
	require.NoError(t, err)
	var f Firing
	steps := []struct {
		at   string
		want bool
	}{
		{"2024-03-05 02:59", false},
		{"2024-03-05 03:00", true},
		{"2024-03-05 03:00", false},
		{"2024-03-05 03:01", true},
		{"2024-03-05 03:01", false},
		{"2024-03-05 03:02", false},
		{"2024-03-06 03:01", true},
		{"2025-03-06 03:01", true},
	}
	for i, s := range steps {
		if got := f.Due(c, at(s.at).Add(30*time.Second)); got != s.want {
			t.Errorf("step %d, %s: %v", i, s.at, got)
		}
	}
}

func TestFiringOnceInRepeatedHour(t *testing.T) {
	c, err := ParseCron("30 2 * * *")
	require.NoError(t, err)
	// 02:30 summer time, then an hour later 02:30 again.
	first := time.Date(2024, 10, 27, 2, 30, 0, 0, time.FixedZone("summer", 2*3600))
	second := first.Add(time.Hour).In(time.FixedZone("winter", 3600))
	var f Firing
	if !f.Due(c, first) || f.Due(c, second) {
		t.Error("not exactly one firing")
	}
}

func TestFiringAfterSkippedHour(t *testing.T) {
	for cron, want := range map[string]bool{"30 2 * * *": true, "0 3 * * *": true, "30 1 * * *": false} {
		c, err := ParseCron(cron)
		require.NoError(t, err)
		// 01:59 winter time, then 03:00 summer time.
		last := time.Date(2024, 3, 31, 1, 59, 0, 0, time.FixedZone("winter", 3600))
		first := last.Add(time.Minute).In(time.FixedZone("summer", 2*3600))
		var f Firing
		if before, after := f.Due(c, last), f.Due(c, first); before || after != want {
			t.Errorf("%q: %v before the skipped hour, %v after it", cron, before, after)
		}
		if f.Due(c, first) || f.Due(c, first.Add(time.Minute)) {
			t.Errorf("%q: fired twice", cron)
		}
	}
}

// FuzzParseCron: no panic; an accepted expression is parsed again from its text to the same, and agrees with
// a plain reading of the grammar on whether a minute matches.
func FuzzParseCron(f *testing.F) {
	for _, s := range []string{"", "* 0-7 * * *", "*/4 1,3,6-10 * 1-12 */2", "0 3 * * 0 30 4 31 12 6", "5-5 * * * *",
		"*/0 * * * *"} {
		f.Add(s, int64(1_700_000_000))
	}
	f.Fuzz(func(t *testing.T, s string, sec int64) {
		c, err := ParseCron(s)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "cron expression format error") {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		again, err := ParseCron(c.String())
		require.NoError(t, err)
		when := time.Unix(sec%4_000_000_000, 0).UTC()
		if got, want := c.Matches(when), plainMatch(strings.Fields(s), when); got != want || again.Matches(when) != got {
			t.Errorf("%q at %v: %v, again %v, want %v", s, when, got, again.Matches(when), want)
		}
	})
}

// plainMatch reads a valid expression value by value.
func plainMatch(fields []string, t time.Time) bool {
	for ; len(fields) >= 5; fields = fields[5:] {
		values := []int{t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday())}
		all := true
		for i, v := range values {
			all = all && plainField(fields[i], v, []int{0, 0, 1, 1, 0}[i])
		}
		if all {
			return true
		}
	}
	return false
}

func plainField(f string, v, offset int) bool {
	number := func(s string) (n int) {
		for _, c := range s {
			n = n*10 + int(c-'0')
		}
		return n
	}
	if f == "*" {
		return true
	}
	if n, ok := strings.CutPrefix(f, "*/"); ok {
		return (v-offset)%number(n) == 0
	}
	for _, item := range strings.Split(f, ",") {
		l, r, isRange := strings.Cut(item, "-")
		if !isRange {
			r = l
		}
		if number(l) <= v && v <= number(r) {
			return true
		}
	}
	return false
}
