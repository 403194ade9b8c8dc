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

// Point is a state of a timeline: the one after a write. It distinguishes the writes of one millisecond.
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

// Flush is a deletion of a key range: FLUSHALL, FLUSHDB, or Kvrocks's deletion of a namespace or of slots.
type Flush struct {
	Time   time.Time `json:"time"`   // when the write was received; it was made earlier
	Before string    `json:"before"` // the [Point] before it
	From   []byte    `json:"from"`   // metadata keys of the range
	To     []byte    `json:"to"`
}

// Flushes finds range deletions that were received within a time span; zero times are no limits.
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
			err := r.withObject(ctx, s.object(), func(in io.Reader) error {
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
