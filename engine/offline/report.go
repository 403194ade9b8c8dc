// Package offline looks at databases that no server has open: [Check] finds what is damaged and [Repair] mends it,
// [Inspect] tells what is in it, [Records] prints the records of one key.
//
// All go over the records in the order of their keys, with memory that does not grow with the database, except for what
// one stream has of groups and consumers.
package offline

import (
	"strconv"

	"github.com/basaltdb/basalt/cf"
)

// Kind names a class of problems. The names are part of the JSON output.
type Kind string

// The kinds of problems.
const (
	BadFile       Kind = "damaged-file"      // a table or blob file with a wrong checksum
	BadLog        Kind = "damaged-log"       // the write-ahead log lacks writes
	Unreadable    Kind = "unreadable-range"  // keys between two others that cannot be read
	BadKey        Kind = "bad-key"           // the bytes of a key are not those of any
	BadRecord     Kind = "bad-record"        // a metadata record cannot be decoded
	BadValue      Kind = "bad-value"         // a subkey or its value cannot be decoded
	UnknownType   Kind = "unknown-type"      // a type that this version does not know: nothing of the key is checked
	BadSlot       Kind = "wrong-slot"        // the key carries the slot of another key
	WrongCount    Kind = "wrong-count"       // a number in a metadata, group or consumer record is not what was counted
	NoMembers     Kind = "missing-members"   // a collection of which no member, or not every part, is there
	BadIndex      Kind = "wrong-score-index" // a sorted set whose two orders do not agree
	Unreachable   Kind = "unreachable"       // a subkey that no command finds, though its key is live
	BadPropagate  Kind = "bad-propagate"     // a script, function or namespace record
	BadSearch     Kind = "bad-search"        // a record of a search index
	UnknownFamily Kind = "unknown-family"    // a column family of a newer version: nothing of it is checked
)

// notes are kinds that say what was not checked; nothing is wrong.
func (k Kind) note() bool { return k == UnknownType || k == UnknownFamily }

// Problem is one thing that is wrong.
type Problem struct {
	Kind      Kind   `json:"kind"`
	File      string `json:"file,omitempty"`
	Family    string `json:"family,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Key       string `json:"key,omitempty"` // quoted as in Go when it is not plain text
	Type      string `json:"type,omitempty"`
	Detail    string `json:"detail"`
	Repair    string `json:"repair,omitempty"` // what Repair has done; empty = nothing
}

// String returns the problem on one line.
func (p *Problem) String() string {
	s := string(p.Kind) + ": "
	if p.File != "" {
		s += p.File + ": "
	}
	if p.Key != "" {
		s += p.Type
		if p.Type != "" {
			s += " "
		}
		s += p.Key
		if p.Namespace != "" && p.Namespace != cf.DefaultNamespace {
			s += " of namespace " + p.Namespace
		}
		s += ": "
	}
	s += p.Detail
	if p.Repair != "" {
		s += "; repaired: " + p.Repair
	}
	return s
}

// Count counts the keys of one type.
type Count struct {
	Keys    int64 `json:"keys"`
	Subkeys int64 `json:"subkeys"`
	Expired int64 `json:"expired"` // keys whose records a compaction will drop
	Empty   int64 `json:"empty"`   // the same, of collections without members
}

// Garbage counts subkeys that no command sees. Compactions drop them, but for Outside.
type Garbage struct {
	Orphans     int64 `json:"orphans"`      // the key was deleted, or is of another type now
	OldVersions int64 `json:"old_versions"` // the key was made anew
	Expired     int64 `json:"expired"`
	// Outside are elements at indexes that their list does not have. They go with the list.
	Outside int64 `json:"outside_of_lists"`
}

// Files counts what was read of files.
type Files struct {
	Tables     int   `json:"tables"`
	TableBytes int64 `json:"table_bytes"`
	Blobs      int   `json:"blobs"`
	BlobBytes  int64 `json:"blob_bytes"`
	LogTail    int64 `json:"log_tail_bytes"` // of an incomplete write at the end of the log, which a crash leaves
}

// maxProblems is how many problems a report holds; more are counted.
const maxProblems = 10000

// Report is what a check has found.
type Report struct {
	Dir      string            `json:"dir"`
	Slots    bool              `json:"cluster_slots"` // keys carry their cluster slot
	Files    Files             `json:"files"`
	Types    map[string]*Count `json:"types"`
	Scripts  int64             `json:"scripts"`
	Library  int64             `json:"libraries"`
	Indexes  int64             `json:"search_records"`
	Garbage  Garbage           `json:"garbage"`
	Found    map[Kind]int64    `json:"found"`
	Problems []Problem         `json:"problems"` // the first 10,000
	Repaired int64             `json:"repaired"`
	Left     int64             `json:"left"`              // problems that were not repaired, notes not counted
	Dropped  string            `json:"dropped,omitempty"` // the file that holds the records which were dropped
	Seconds  float64           `json:"seconds"`
}

func newReport(dir string, slots bool) *Report {
	return &Report{Dir: dir, Slots: slots, Types: map[string]*Count{}, Found: map[Kind]int64{}, Problems: []Problem{}}
}

func (r *Report) count(t cf.Type) *Count {
	name := t.String()
	c := r.Types[name]
	if c == nil {
		c = new(Count)
		r.Types[name] = c
	}
	return c
}

func (r *Report) add(p Problem) {
	r.Found[p.Kind]++
	switch {
	case p.Repair != "":
		r.Repaired++
	case !p.Kind.note():
		r.Left++
	}
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, p)
	}
}

// show makes bytes readable: plain text as it is, other bytes quoted.
func show(b []byte) string {
	s := string(b)
	if q := strconv.Quote(s); s == "" || len(q) != len(s)+2 {
		return q
	}
	return s
}
