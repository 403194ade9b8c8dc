// Package wal checks the write-ahead logs of a database before RocksDB reads them.
//
// At the first damage, RocksDB either stops its replay as if nothing followed, or skips the damage; it does not notice
// a missing log. This package finds both before the replay, distinguishes them from the incomplete tail that a crash
// may leave, and describes them. RocksDB then opens only intact logs.
package wal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/engine/logfile"
)

// State is what the caller knows about the logs of a database.
type State struct {
	MinLog       uint64 // logs with lower numbers are not needed
	NewestLog    uint64 // if Opened, a log with this or a higher number existed
	LastSequence uint64 // the oldest needed log begins with the write after this one, or earlier
	Opened       bool   // a process had the directory open, and so created a log: it is not just a checkpoint
	Gaps         bool   // writes outside all logs are normal (Options.DisableWAL)
	List         List   // the list that this server wrote
}

// Loss is a place where writes are missing from the logs.
type Loss struct {
	File   string // name of the damaged or missing log
	Offset int64  // of the damage; -1 = the file, or writes before it, are missing
	Size   int64  // of the file
	Reason string
	Last   uint64 // sequence number of the last write before the loss, 0 = unknown
	Next   uint64 // sequence number of the first write after the loss, 0 = none, or unknown
	After  uint64 // number of writes in the logs after the loss; for compressed logs, of batches
}

// lost says which writes are certainly lost.
func (l *Loss) lost() string {
	switch {
	case l.Last > 0 && l.Next == l.Last+2:
		return fmt.Sprintf("write %d is lost", l.Last+1)
	case l.Last > 0 && l.Next > l.Last+1:
		return fmt.Sprintf("writes %d to %d are lost", l.Last+1, l.Next-1)
	case l.Next > 0:
		return fmt.Sprintf("writes before %d are lost", l.Next)
	case l.Last > 0:
		return fmt.Sprintf("writes after %d are lost", l.Last)
	}
	return "writes are lost"
}

func (l *Loss) String() string {
	what := l.File + " " + l.Reason
	if l.Offset >= 0 {
		what = fmt.Sprintf("%s is damaged at byte %d of %d (%s)", l.File, l.Offset, l.Size, l.Reason)
	}
	what += ": " + l.lost()
	if l.After > 0 {
		what += fmt.Sprintf(", later writes that can be read: %d", l.After)
	}
	return what
}

// Report is the result of [Check].
type Report struct {
	Loss      *Loss  // the first loss; nil = none
	Losses    int    // number of losses
	Tail      *Loss  // the incomplete tail of the last log; nil = none
	TailBytes int64  // its size
	Last      uint64 // sequence number of the last write in a log, 0 = unknown
	Largest   int    // size in bytes of the largest batch

	files []file // in order
}

// file is a needed log.
type file struct {
	number uint64
	size   int64
	listed bool // it is in the list, and missing
	first  bool // the first loss is in this file
}

// Name returns the file name of a log.
func Name(number uint64) string { return fmt.Sprintf("%06d.log", number) }

// Numbers returns the numbers of the logs in a directory, in ascending order.
func Numbers(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), ".log")
		if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Check reads all needed logs. It returns an error if a log cannot be read or has an unknown format.
func Check(dir string, s State) (*Report, error) {
	numbers, err := Numbers(dir)
	if err != nil {
		return nil, err
	}
	if len(numbers) > 0 && numbers[0] == 0 {
		return nil, fmt.Errorf("%s is no log of a database, and RocksDB would end the process: move it away",
			filepath.Join(dir, Name(0)))
	}
	c := checker{dir: dir, s: s, report: &Report{}}
	for _, n := range numbers {
		c.report.files = append(c.report.files, file{number: n})
	}
	for _, n := range s.List.Logs {
		if !slices.Contains(numbers, n) {
			c.report.files = append(c.report.files, file{number: n, listed: true})
		}
	}
	c.report.files = slices.DeleteFunc(c.report.files, func(f file) bool { return f.number < s.MinLog })
	slices.SortFunc(c.report.files, func(a, b file) int { return int(int64(a.number) - int64(b.number)) })
	for i := range c.report.files {
		c.at = i
		if f := &c.report.files[i]; f.listed {
			c.lose(&Loss{File: Name(f.number), Offset: -1, Reason: "is missing", Last: c.last})
		} else if err := c.read(f); err != nil {
			return nil, err
		}
	}
	known := max(s.MinLog, s.NewestLog) // 0 = the database was rebuilt from its table files
	if at := len(c.report.files); s.Opened && known > 0 && (at == 0 || c.report.files[at-1].number < known) {
		c.report.files = append(c.report.files, file{number: known, listed: true})
		c.at = at
		c.lose(&Loss{File: Name(known), Offset: -1, Reason: "and all later logs are missing", Last: c.last})
	}
	c.report.Tail, c.report.Last = c.torn, c.last
	if c.torn != nil {
		c.report.TailBytes = c.torn.Size - c.torn.Offset
	}
	return c.report, nil
}

// checker reads the logs in order.
type checker struct {
	dir    string
	s      State
	report *Report
	at     int    // index of the current file
	last   uint64 // sequence number of the last write, 0 = unknown
	torn   *Loss  // a log that ended within a record, as long as nothing intact follows
	tornAt int
	open   *Loss // the current loss, until the next intact record
}

// lose records a loss at the current file.
func (c *checker) lose(l *Loss) { c.loseAt(l, c.at) }

func (c *checker) loseAt(l *Loss, at int) {
	c.torn = nil
	c.open = l
	c.report.Losses++
	if c.report.Loss == nil {
		c.report.Loss = l
		c.report.files[at].first = true
	}
}

func (c *checker) read(f *file) error {
	name := Name(f.number)
	r, err := os.Open(filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return err
	}
	f.size = info.Size()
	s := logfile.NewScanner(bufio.NewReaderSize(r, 1<<20), f.number)
	s.Keep = batchHeader // a batch may be larger than the memory
	for begins := true; ; begins = false {
		for s.Next() {
			c.record(s, name, begins)
			begins = false
		}
		damage := (*logfile.Damage)(nil)
		if err := s.Err(); err != nil && !errors.As(err, &damage) {
			return fmt.Errorf("%s: %w", filepath.Join(c.dir, name), err)
		}
		if damage == nil {
			break
		}
		l := &Loss{File: name, Offset: damage.Offset, Size: f.size, Reason: damage.Reason, Last: c.last}
		if !s.Resync(func(record []byte) bool { return s.Compressed || c.plausible(record, s.Size(), f.size) }) {
			if err := s.Err(); !errors.As(err, &damage) {
				return fmt.Errorf("%s: %w", filepath.Join(c.dir, name), err)
			}
			if c.torn == nil && c.open == nil {
				c.torn, c.tornAt = l, c.at
			}
			break
		}
		c.lose(l)
		c.record(s, name, false)
	}
	if clean := c.s.List; clean.Clean > 0 && len(clean.Logs) > 0 && clean.Logs[len(clean.Logs)-1] == f.number {
		c.wasClean(f, s.End())
	}
	return nil
}

// wasClean compares a log with its size at the time when the database was closed: then it ended with a complete record.
func (c *checker) wasClean(f *file, end int64) {
	switch clean := c.s.List.Clean; {
	case c.torn != nil && c.tornAt == c.at && c.torn.Offset < clean:
		c.lose(c.torn)
	case c.torn == nil && end < clean && f.size < clean:
		reason := fmt.Sprintf("it had %d bytes when the database was closed", clean)
		c.lose(&Loss{File: Name(f.number), Offset: end, Size: f.size, Reason: reason, Last: c.last})
	}
}

// batchHeader is the number of bytes before the writes of a batch.
const batchHeader = 12

// batch returns the sequence number of the first write of a batch, and the number of its writes.
func batch(record []byte) (first uint64, n uint32, ok bool) {
	if len(record) < batchHeader {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(record), binary.LittleEndian.Uint32(record[8:]), true
}

// plausible reports whether a record after damage belongs to this log, rather than being part of a value that looks
// like a record: it must continue the sequence numbers. length is that of the record, of which the beginning is given,
// size that of the log.
func (c *checker) plausible(record []byte, length int, size int64) bool {
	first, n, ok := batch(record)
	most := uint64(size)
	if c.last == 0 {
		most = math.MaxUint64 >> 8
	}
	return ok && first > c.last && first-c.last <= most && uint64(n) <= uint64(length)
}

// record processes an intact record; begins says that it is the first one of its log.
func (c *checker) record(s *logfile.Scanner, name string, begins bool) {
	c.report.Largest = max(c.report.Largest, s.Size())
	first, n, ok := uint64(0), uint32(0), false
	if !s.Compressed {
		first, n, ok = batch(s.Record())
	}
	known := ok && c.last > 0
	switch {
	case c.torn != nil && known && first == c.last+1:
		// The database was opened with this tail and continued after the last complete record.
		c.torn = nil
	case c.torn != nil:
		c.loseAt(c.torn, c.tornAt)
	case begins && ok && c.open == nil && !c.s.Gaps && (known || c.at == 0) && first > max(c.last, c.before())+1:
		c.lose(&Loss{File: name, Offset: -1, Reason: "does not continue the log before it", Last: max(c.last, c.before())})
	}
	if c.open != nil {
		c.open.Next, c.open = first, nil
	}
	if l := c.report.Loss; l != nil {
		l.After += max(1, uint64(n))
	}
	switch {
	case ok && n > 0:
		c.last = first + uint64(n) - 1
	case ok && first > 0: // RocksDB's marker of where it continued
		c.last = max(c.last, first-1)
	}
}

// before returns the sequence number of the last write before the first needed log.
func (c *checker) before() uint64 {
	if c.at == 0 {
		return c.s.LastSequence
	}
	return 0
}
