package backup

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/engine/batch"
)

// A segment holds write batches of RocksDB in the order of their sequence numbers. All numbers are little-endian.
//
//	"BSLTLOG1"
//	u64 ms     0, or: since this time nobody had read the log when the first batch came
//	and then, for each batch
//	u32 length of the batch
//	u32 crc32c of what follows
//	i64 ms     when the batch came, by the clock of the program that has read it
//	the batch
//
// Its name contains the sequence numbers of its first and last record and the times of its first and last batch, in
// milliseconds since the epoch. So a truncated segment is detected.

const (
	segmentMagic  = "BSLTLOG1"
	segmentHeader = len(segmentMagic) + 8
	batchHead     = 4 + 4 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Segment is the information in the name of a segment.
type Segment struct {
	Timeline    string
	First, Last uint64    // sequence numbers
	From, To    time.Time // of its batches
	Size        int64     // bytes, header included
}

const logPrefix = "log/"

func timelinePrefix(timeline string) string { return logPrefix + timeline + "/" }

func (s *Segment) object() string {
	return fmt.Sprintf("%s%020d-%020d-%013d-%013d", timelinePrefix(s.Timeline), s.First, s.Last, s.From.UnixMilli(),
		s.To.UnixMilli())
}

var segmentName = regexp.MustCompile(`^log/([^/]+)/([0-9]{20})-([0-9]{20})-([0-9]{13})-([0-9]{13})$`)

func parseSegment(o Object) (s Segment, ok bool) {
	m := segmentName.FindStringSubmatch(o.Name)
	if m == nil || !validID.MatchString(m[1]) {
		return s, false
	}
	var n [4]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(m[2+i], 10, 64); err != nil {
			return s, false
		}
	}
	return Segment{Timeline: m[1], First: n[0], Last: n[1], From: time.UnixMilli(int64(n[2])),
		To: time.UnixMilli(int64(n[3])), Size: o.Size}, n[0] <= n[1]
}

// position says up to when a timeline is complete: all writes received until then are stored.
type position struct {
	Time     time.Time `json:"time"`
	Sequence uint64    `json:"sequence"`
}

func positionObject(timeline string) string { return timelinePrefix(timeline) + "position.json" }

// Timeline is a log without gaps.
type Timeline struct {
	ID       string
	Segments []Segment // by their first sequence numbers
	Until    time.Time // the log is complete up to this time; zero = unknown
	Last     uint64    // the sequence number of the newest write that was stored; 0 = unknown
}

// end returns the sequence number at which the segments end.
func (t *Timeline) end() uint64 {
	if n := len(t.Segments); n > 0 {
		return t.Segments[n-1].Last
	}
	return 0
}

func (t *Timeline) sort() {
	slices.SortFunc(t.Segments, func(a, b Segment) int { return strings.Compare(a.object(), b.object()) })
}

// findTimeline returns a timeline by its id, or if none has it, one without segments.
func findTimeline(lines []*Timeline, id string) *Timeline {
	for _, t := range lines {
		if t.ID == id {
			return t
		}
	}
	return &Timeline{ID: id}
}

// timelines returns the timelines with segments or a position, oldest first.
func (r *Repo) timelines(ctx context.Context) ([]*Timeline, error) {
	byID := map[string]*Timeline{}
	var all []*Timeline
	line := func(id string) *Timeline {
		if byID[id] == nil {
			byID[id] = &Timeline{ID: id}
			all = append(all, byID[id])
		}
		return byID[id]
	}
	err := r.List(ctx, logPrefix, func(o Object) error {
		if s, ok := parseSegment(o); ok {
			t := line(s.Timeline)
			t.Segments = append(t.Segments, s)
		} else if id, ok := strings.CutSuffix(strings.TrimPrefix(o.Name, logPrefix), "/position.json"); ok &&
			validID.MatchString(id) {
			line(id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		t.sort()
		if n := len(t.Segments); n > 0 {
			t.Until = t.Segments[n-1].To
		}
		text, err := get(ctx, r, positionObject(t.ID), 1<<10)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var p position
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("%w: %s: %v", ErrDamaged, positionObject(t.ID), err)
		}
		if p.Time.After(t.Until) {
			t.Until = p.Time
		}
		if t.Last = p.Sequence; t.Last > t.end() { // the newest segment is missing, or has come since
			t.Segments = nil
			err := r.List(ctx, timelinePrefix(t.ID), func(o Object) error {
				if s, ok := parseSegment(o); ok {
					t.Segments = append(t.Segments, s)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			t.sort()
		}
	}
	slices.SortFunc(all, func(a, b *Timeline) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// segmentWriter writes a segment.
type segmentWriter struct {
	w     Writer
	buf   *bufio.Writer // in front of w and sum
	sum   hash.Hash
	seg   Segment
	empty bool
}

// newSegment begins a segment of a timeline. unread is the time since which no one has read the log; zero = none.
func newSegment(ctx context.Context, s Store, timeline string, unread time.Time) (*segmentWriter, error) {
	w, err := s.Create(ctx)
	if err != nil {
		return nil, err
	}
	sw := &segmentWriter{w: w, sum: sha256.New(), empty: true, seg: Segment{Timeline: timeline}}
	sw.buf = bufio.NewWriterSize(io.MultiWriter(w, sw.sum), 64<<10)
	var ms uint64
	if !unread.IsZero() {
		ms = uint64(unread.UnixMilli())
	}
	_, err = sw.buf.Write(binary.LittleEndian.AppendUint64([]byte(segmentMagic), ms))
	if err != nil {
		w.Abort()
		return nil, err
	}
	sw.seg.Size = int64(segmentHeader)
	return sw, nil
}

// add appends a batch, which must contain records.
func (w *segmentWriter) add(rep []byte, at time.Time) error {
	first, last := span(rep)
	if w.empty {
		w.seg.First, w.seg.From, w.empty = first, at, false
	}
	w.seg.Last, w.seg.To = last, at
	head := make([]byte, batchHead)
	binary.LittleEndian.PutUint32(head, uint32(len(rep)))
	binary.LittleEndian.PutUint64(head[8:], uint64(at.UnixMilli()))
	sum := crc32.Update(crc32.Checksum(head[8:], castagnoli), castagnoli, rep)
	binary.LittleEndian.PutUint32(head[4:], sum)
	if _, err := w.buf.Write(head); err != nil {
		return err
	}
	_, err := w.buf.Write(rep)
	w.seg.Size += int64(batchHead + len(rep))
	return err
}

// commit stores the segment.
func (w *segmentWriter) commit() error {
	if err := w.buf.Flush(); err != nil {
		return err
	}
	return w.w.Commit(w.seg.object())
}

// commitFile stores the segment as a file of a backup; the file name contains the information of a segment's name.
func (w *segmentWriter) commitFile() (*File, error) {
	if err := w.buf.Flush(); err != nil {
		return nil, err
	}
	f := &File{Name: w.seg.object(), Size: w.seg.Size, SHA256: hex.EncodeToString(w.sum.Sum(nil))}
	return f, w.w.Commit(f.object())
}

func (w *segmentWriter) abort() { w.w.Abort() }

// span returns the sequence numbers of the first and the last record of a batch with records.
func span(rep []byte) (first, last uint64) {
	first = binary.LittleEndian.Uint64(rep)
	return first, first + uint64(binary.LittleEndian.Uint32(rep[8:])) - 1
}

// segmentReader reads a segment.
type segmentReader struct {
	r      *bufio.Reader
	name   string
	unread time.Time // see newSegment
	head   [batchHead]byte
}

func newSegmentReader(r io.Reader, name string) (*segmentReader, error) {
	s := &segmentReader{r: bufio.NewReaderSize(r, 256<<10), name: name}
	var head [segmentHeader]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return nil, s.damaged("it ends within its header", err)
	}
	if string(head[:len(segmentMagic)]) != segmentMagic {
		return nil, s.damaged("it does not begin as a segment", nil)
	}
	if ms := binary.LittleEndian.Uint64(head[len(segmentMagic):]); ms != 0 {
		s.unread = time.UnixMilli(int64(ms))
	}
	return s, nil
}

// damaged returns an error that describes damage; an error of the store is not damage.
func (s *segmentReader) damaged(what string, err error) error {
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return fmt.Errorf("%w: %s: %s", ErrDamaged, s.name, what)
}

// next returns the next batch, which the caller owns, and the time when it was received; nil at the end.
func (s *segmentReader) next() (rep []byte, at time.Time, err error) {
	switch _, err := io.ReadFull(s.r, s.head[:]); {
	case errors.Is(err, io.EOF):
		return nil, at, nil
	case err != nil:
		return nil, at, s.damaged("it ends within a batch", err)
	}
	n := binary.LittleEndian.Uint32(s.head[:])
	if n < batch.HeaderLen || n > math.MaxInt32 {
		return nil, at, s.damaged(fmt.Sprintf("a batch of %d bytes", n), nil)
	}
	// The length may be wrong: allocate memory as data arrives.
	for len(rep) < int(n) {
		step := min(int(n)-len(rep), 1<<20)
		rep = slices.Grow(rep, step)[:len(rep)+step]
		if _, err := io.ReadFull(s.r, rep[len(rep)-step:]); err != nil {
			return nil, at, s.damaged("it ends within a batch", err)
		}
	}
	sum := crc32.Update(crc32.Checksum(s.head[8:], castagnoli), castagnoli, rep)
	if sum != binary.LittleEndian.Uint32(s.head[4:]) {
		return nil, at, s.damaged("the checksum of a batch is wrong", nil)
	}
	if binary.LittleEndian.Uint32(rep[8:]) == 0 {
		return nil, at, s.damaged("a batch without records", nil)
	}
	return rep, time.UnixMilli(int64(binary.LittleEndian.Uint64(s.head[8:]))), nil
}

// readSegment calls f for every batch of a segment, and checks that the content matches the name. unread is the time
// since which no one had read the log; it is only set in the first call.
func readSegment(r io.Reader, seg Segment, f func(rep []byte, at, unread time.Time) error) error {
	s, err := newSegmentReader(r, seg.object())
	if err != nil {
		return err
	}
	next, unread := seg.First, s.unread
	for {
		rep, at, err := s.next()
		if err != nil {
			return err
		}
		if rep == nil {
			if next != seg.Last+1 {
				return s.damaged(fmt.Sprintf("it ends before sequence number %d", next), nil)
			}
			return nil
		}
		first, last := span(rep)
		if first != next || last > seg.Last {
			return s.damaged(fmt.Sprintf("sequence number %d where %d belongs", first, next), nil)
		}
		next = last + 1
		if err := f(rep, at, unread); err != nil {
			return err
		}
		unread = time.Time{}
	}
}

// Span is a time span of which every moment can be restored.
type Span struct {
	From     time.Time `json:"from"` // the time of a backup
	To       time.Time `json:"to"`
	Timeline string    `json:"timeline"`
}

// Spans returns the time spans of which every moment can be restored, oldest first.
func (r *Repo) Spans(ctx context.Context) ([]Span, error) {
	backups, err := r.Backups(ctx)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	lines, err := r.timelines(ctx)
	if err != nil {
		return nil, err
	}
	spans := []Span{}
	for _, t := range lines {
		first := slices.IndexFunc(backups, func(b *Backup) bool { return b.Timeline == t.ID })
		if first >= 0 && t.Until.After(backups[first].Time) {
			spans = append(spans, Span{From: backups[first].Time, To: t.Until, Timeline: t.ID})
		}
	}
	return spans, nil
}
