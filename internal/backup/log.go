package backup

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
)

// Point is a state of a timeline: that behind a write. Many writes may have come in one millisecond; points tell them
// apart.
type Point struct {
	Timeline string
	Sequence uint64
}

// String returns TIMELINE@SEQUENCE.
func (p Point) String() string { return p.Timeline + "@" + strconv.FormatUint(p.Sequence, 10) }

// ParsePoint is the inverse of String.
func ParsePoint(s string) (p Point, ok bool) {
	line, sequence, ok := strings.Cut(s, "@")
	n, err := strconv.ParseUint(sequence, 10, 64)
	return Point{line, n}, ok && err == nil && validID.MatchString(line)
}

// Flush is a deletion of a range of keys: FLUSHALL, FLUSHDB, or one of Kvrocks's deletions of a namespace or slots.
type Flush struct {
	Time   time.Time `json:"time"`   // when the write came; it was not made later
	Before string    `json:"before"` // the [Point] before it
	From   []byte    `json:"from"`   // metadata keys of the range
	To     []byte    `json:"to"`
}

// Flushes finds deletions of ranges of keys that came within a span of time; zero times are no bounds.
func (r *Repo) Flushes(ctx context.Context, since, until time.Time) ([]Flush, error) {
	lines, err := r.timelines(ctx)
	if err != nil {
		return nil, err
	}
	found := []Flush{}
	for _, t := range lines {
		for _, s := range t.Segments {
			if s.To.Before(since) || !until.IsZero() && s.From.After(until) {
				continue
			}
			err := r.withSegment(ctx, s, func(in io.Reader) error {
				return readSegment(in, s, func(rep []byte, at, _ time.Time) error {
					if at.Before(since) || !until.IsZero() && at.After(until) {
						return nil
					}
					flushes, err := flushesOf(rep, at, t.ID)
					found = append(found, flushes...)
					return err
				})
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func flushesOf(rep []byte, at time.Time, timeline string) (found []Flush, err error) {
	r, err := batch.NewReader(rep)
	if err != nil {
		return nil, err
	}
	before := Point{Timeline: timeline, Sequence: r.Sequence() - 1}.String()
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		if rec.Kind == batch.DeleteRange && rec.Family == cf.Metadata {
			found = append(found, Flush{Time: at, Before: before, From: bytes.Clone(rec.Key), To: bytes.Clone(rec.Value)})
		}
	}
	return found, r.Err()
}
