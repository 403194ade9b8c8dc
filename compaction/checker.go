package compaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/cf"
)

const (
	// filesPerForced: one run may force one file of a family for each so many files that the family has.
	filesPerForced = 360
	// minAge is the min age of a file that is picked for its share of deleted keys.
	minAge = time.Hour
	// minRatio is the share of deleted keys above which the best file is picked.
	minRatio = 0.1
)

// FileProperties is what the picker knows of one SST file.
type FileProperties struct {
	Name    string
	Created time.Time // of the file's data as RocksDB notes it, else the file's modification time
	Total   uint64    // keys, see [PropTotalKeys]
	Deleted uint64    // how many of them are deleted or dead
	Start   []byte    // the first key; empty when the file has no such properties
	Stop    []byte    // the last key

	Level    int
	RawBytes uint64 // bytes of keys and values, before compression
	Expiries Expiries
	Ingested bool // [ExpiriesUnknown]
}

// The names of the properties that the native collector in engine/rocks writes into a file. The counters are in
// decimal, the keys are unencoded. A metadata record stands for its subkeys too, which are in other families: it counts
// as 1 + size keys, all of them deleted when the record is expired or an emptied collection. Range deletes do not count
// as deleted keys, because the number of keys that they delete is unknown.
const (
	PropTotalKeys   = "total_keys"
	PropDeletedKeys = "deleted_keys"
	PropStartKey    = "start_key"
	PropStopKey     = "stop_key"
)

// SetCounters fills the counters and keys from the properties of the file. If they are missing, or a counter is not
// a number, the keys stay empty, so that the picker skips the file.
func (f *FileProperties) SetCounters(props map[string]string) {
	f.Total, f.Deleted, f.Start, f.Stop = 0, 0, nil, nil
	total, err := strconv.ParseUint(props[PropTotalKeys], 10, 64)
	if err != nil {
		return
	}
	deleted, err := strconv.ParseUint(props[PropDeletedKeys], 10, 64)
	if err != nil {
		return
	}
	f.Total, f.Deleted = total, deleted
	f.Start, f.Stop = []byte(props[PropStartKey]), []byte(props[PropStopKey])
}

// ratio returns the share of deleted keys.
func (f *FileProperties) ratio() float64 {
	if f.Total == 0 {
		return 0
	}
	return float64(f.Deleted) / float64(f.Total)
}

// Settings are the settings that the checker follows; they may change between ticks.
type Settings struct {
	Cron            Cron          // compaction-checker-cron
	ForceAge        time.Duration // force-compact-file-age
	ForceMinDeleted int           // force-compact-file-min-deleted-percentage, 1..100
}

// Range is a range of keys to compact, both ends included, and the file it comes from.
type Range struct {
	File        string
	Start, Stop []byte
	Ratio       float64 // share of deleted keys
	Forced      bool    // picked for its age, not for its share of deleted keys
}

// PickFiles returns the ranges to compact in one family now.
//
// A file older than ForceAge with at least ForceMinDeleted percent deleted keys is forced, up to one file in 360. While
// the forced files do not use up that limit, the file with the highest share of deleted keys is picked too, if the
// share is above a tenth and the file is an hour old. A family with a single file is left alone.
//
// The oldest files come first, so that no file is skipped for ever.
func PickFiles(files []FileProperties, s Settings, now time.Time) []Range {
	if len(files) <= 1 {
		return nil
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b FileProperties) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return bytes.Compare(a.Start, b.Start)
	})
	budget := max(1, len(files)/filesPerForced)
	var ranges []Range
	var best *FileProperties
	for i := range files {
		f := &files[i]
		if len(f.Start) == 0 || len(f.Stop) == 0 {
			continue
		}
		if f.Created.Before(now.Add(-s.ForceAge)) && f.ratio() >= float64(s.ForceMinDeleted)/100 {
			ranges = append(ranges, f.span(true))
			if len(ranges) == budget {
				return ranges
			}
			continue
		}
		if f.Created.After(now.Add(-minAge)) {
			continue
		}
		if best == nil || f.ratio() > best.ratio() {
			best = f
		}
	}
	if best != nil && best.ratio() > minRatio {
		ranges = append(ranges, best.span(false))
	}
	return ranges
}

func (f *FileProperties) span(forced bool) Range {
	return Range{File: f.Name, Start: f.Start, Stop: f.Stop, Ratio: f.ratio(), Forced: forced}
}

// Checker compacts, at the times of its cron, the files that hold the most deleted keys, and once a day the families
// whose contents only travel in the WAL. [Checker.Tick] drives it; it has no goroutine of its own. It must not be used
// by two goroutines at once.
type Checker struct {
	Now        func() time.Time // in the location of the cron
	Settings   func() Settings
	Properties func(cf.ID) ([]FileProperties, error)
	// CompactRange compacts the keys from start to stop, both included; both nil = the whole family. It returns when
	// the compaction has ended.
	CompactRange func(id cf.ID, start, stop []byte) error
	// Picked, if set, is called with each range before its compaction, for the log.
	Picked func(id cf.ID, r Range)

	looked  bool
	minute  int64 // of the last look, in minutes since the epoch
	firing  Firing
	lastDay int64 // of the last daily compaction, in days since the epoch
}

// transient are the families whose records only travel in the WAL.
var transient = [...]cf.ID{cf.PubSub, cf.Propagate}

// Tick does what is due and returns when it is done. It may be called at any rate, and checks the cron once a minute.
// Nothing is ever due while the cron is not set. Tick stops between two ranges when the context ends. It returns the
// errors of all steps joined: a failure in one family does not keep the others from being compacted.
func (c *Checker) Tick(ctx context.Context) error {
	now := c.Now()
	minute := now.Unix() / 60
	if c.looked && minute == c.minute {
		return nil
	}
	c.looked, c.minute = true, minute
	s := c.Settings()
	if !s.Cron.IsEnabled() {
		return nil
	}
	var errs []error
	if c.firing.Due(s.Cron, now) {
		for id := range cf.NumFamilies {
			if err := c.check(ctx, id, s, now); err != nil {
				errs = append(errs, fmt.Errorf("compaction checker, family %s: %w", id, err))
			}
		}
	}
	// Days of UTC, as in Kvrocks. The first check after the start counts as a new day.
	if day := now.Unix() / (24 * 60 * 60); day != c.lastDay {
		c.lastDay = day
		for _, id := range transient {
			if ctx.Err() != nil {
				break
			}
			if err := c.CompactRange(id, nil, nil); err != nil {
				errs = append(errs, fmt.Errorf("daily compaction, family %s: %w", id, err))
			}
		}
	}
	return errors.Join(errs...)
}

// check compacts the files that are picked in one family.
func (c *Checker) check(ctx context.Context, id cf.ID, s Settings, now time.Time) error {
	if ctx.Err() != nil {
		return nil
	}
	files, err := c.Properties(id)
	if err != nil {
		return err
	}
	for _, r := range PickFiles(files, s, now) {
		if ctx.Err() != nil {
			return nil
		}
		if c.Picked != nil {
			c.Picked(id, r)
		}
		if err := c.CompactRange(id, r.Start, r.Stop); err != nil {
			return err
		}
	}
	return nil
}
