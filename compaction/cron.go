package compaction

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Errors of [ParseCron]. Their texts are those of CONFIG SET and of the configuration file.
var (
	ErrCronFields       = errors.New("cron expression format error, should only contain 5x fields")
	ErrCronNumber       = cronError("an integer is expected in a cron expression")
	ErrCronInterval     = cronError("an integer is expected after `*/` in a cron expression")
	ErrCronZeroInterval = cronError("interval value after `*/` cannot be zero")
	ErrCronRangeLow     = cronError("an integer is expected before `-` in a cron expression")
	ErrCronRangeHigh    = cronError("an integer is expected after `-` in a cron expression")
	ErrCronRange        = cronError("for pattern `l-r` in cron expression, r should be larger than l")
)

func cronError(detail string) error { return errors.New("cron expression format error: " + detail) }

// numFields is the number of fields of one schedule: minute, hour, day of the month, month, weekday.
const numFields = 5

// fieldRanges gives for each field its smallest and largest value. Weekday 0 is Sunday.
var fieldRanges = [numFields]struct{ min, max int }{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}

// Cron is a set of schedules. The zero value has none and never matches. A Cron is immutable and may be shared.
//
// The grammar is that of Kvrocks, which is smaller than that of cron(5): consecutive schedules of five blank-separated
// fields each; a field is *, */n or a comma-separated list of n and l-r with l < r. Names, l-r/n and 7 for Sunday are
// not supported. All five fields must match, the day of the month and the weekday both.
type Cron struct {
	source    string
	schedules []schedule
}

// schedule has, for each field, one bit for every value that matches.
type schedule [numFields]uint64

// ParseCron parses an expression. An expression without fields has no schedule. Its error is one of the ErrCron errors.
func ParseCron(s string) (Cron, error) {
	fields := strings.Fields(s)
	if len(fields)%numFields != 0 {
		return Cron{}, ErrCronFields
	}
	c := Cron{source: s}
	for len(fields) > 0 {
		var sch schedule
		for i := range sch {
			bits, err := parseField(fields[i], fieldRanges[i].min, fieldRanges[i].max)
			if err != nil {
				return Cron{}, err
			}
			sch[i] = bits
		}
		c.schedules = append(c.schedules, sch)
		fields = fields[numFields:]
	}
	return c, nil
}

// parseField returns the set of values in lo..hi that a field matches, as a bit set.
func parseField(f string, lo, hi int) (bits uint64, err error) {
	if f == "*" {
		return bitRange(lo, hi, 1), nil
	}
	if interval, ok := strings.CutPrefix(f, "*/"); ok {
		n, ok := parseNumber(interval, lo, hi)
		if !ok {
			return 0, ErrCronInterval
		}
		if n == 0 {
			return 0, ErrCronZeroInterval
		}
		// Counted from the field's first value, which is 1 for days and months.
		return bitRange(lo, hi, n), nil
	}
	for item := range strings.SplitSeq(f, ",") {
		l, r, isRange := strings.Cut(item, "-")
		if !isRange {
			n, ok := parseNumber(item, lo, hi)
			if !ok {
				return 0, ErrCronNumber
			}
			bits |= 1 << n
			continue
		}
		first, ok := parseNumber(l, lo, hi)
		if !ok {
			return 0, ErrCronRangeLow
		}
		last, ok := parseNumber(r, lo, hi)
		if !ok {
			return 0, ErrCronRangeHigh
		}
		if first >= last {
			return 0, ErrCronRange
		}
		bits |= bitRange(first, last, 1)
	}
	return bits, nil
}

// parseNumber parses a decimal number without sign that lies in lo..hi.
func parseNumber(s string, lo, hi int) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n < uint64(lo) || n > uint64(hi) {
		return 0, false
	}
	return int(n), true
}

func bitRange(first, last, step int) (bits uint64) {
	for n := first; n <= last; n += step {
		bits |= 1 << n
	}
	return bits
}

// IsEnabled reports whether any schedule exists.
func (c Cron) IsEnabled() bool { return len(c.schedules) > 0 }

// String returns the expression as it was given.
func (c Cron) String() string { return c.source }

// Matches reports whether a schedule includes the minute of t, in t's own location.
func (c Cron) Matches(t time.Time) bool {
	values := [numFields]int{t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday())}
next:
	for i := range c.schedules {
		for f, bits := range c.schedules[i] {
			if bits&(1<<values[f]) == 0 {
				continue next
			}
		}
		return true
	}
	return false
}

// Firing remembers when a cron last fired, so that the cron fires once in a matching minute however often Due is
// called. The zero value has never fired.
type Firing struct {
	asked, fired bool
	offset       int       // of the zone from UTC when Due was last called, in seconds
	last         time.Time // wall clock, truncated to the minute, as UTC
}

// Due reports whether the cron matches t and has not fired in this minute yet; the cron then counts as fired. Minutes
// are compared by wall clock, so that a daily schedule does not fire twice in the hour that is repeated when summer
// time ends. What matches a minute of the hour that is skipped when summer time begins is due after that hour.
func (f *Firing) Due(c Cron, t time.Time) bool {
	minute := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	matches := c.Matches(minute)
	_, offset := t.Zone()
	if f.asked {
		for s := f.offset; s < offset && !matches; s += 60 {
			matches = c.Matches(minute.Add(time.Duration(s-offset) * time.Second))
		}
	}
	f.asked, f.offset = true, offset
	if !matches || f.fired && f.last.Equal(minute) {
		return false
	}
	f.fired, f.last = true, minute
	return true
}
