// Package offline works on databases that no server has open: [Check] finds damage, [Repair] repairs it, [Inspect]
// describes the content, [Raw] prints the records of one key, and [Reslot] converts a database into or out of the
// cluster form.
//
// All of them read the records in key order. Their memory does not grow with the database, except with the groups and
// consumers of a single stream.
package offline

import (
	"strconv"

	"github.com/basaltdb/basalt/cf"
)

// Kind names a class of problems. The names are part of the JSON output.
type Kind string

// The kinds of problems.
const (
	BadFile     Kind = "damaged-file"     // a table or blob file with a wrong checksum
	BadLog      Kind = "damaged-log"      // the write-ahead log lacks writes
	Unreadable  Kind = "unreadable-range" // keys between two others cannot be read
	BadKey      Kind = "bad-key"          // a key cannot be decoded
	BadRecord   Kind = "bad-record"       // a metadata record cannot be decoded
	BadValue    Kind = "bad-value"        // a subkey or its value cannot be decoded
	UnknownType Kind = "unknown-type"     // a type that this version does not know: nothing of the key is checked
	BadSlot     Kind = "wrong-slot"       // the key carries the slot of another key
	// a number in a metadata, group or consumer record differs from the counted one
	WrongCount    Kind = "wrong-count"
	NoMembers     Kind = "missing-members"   // a collection without any members, or without one of its parts
	BadIndex      Kind = "wrong-score-index" // the two orders of a sorted set differ
	Unreachable   Kind = "unreachable"       // a subkey that no command finds, though its key is live
	BadPropagate  Kind = "bad-propagate"     // a script, function or namespace record
	BadSearch     Kind = "bad-search"        // a record of a search index
	UnknownFamily Kind = "unknown-family"    // a column family of a newer version: nothing of it is checked
)

// note reports whether the kind only says what was not checked; such a note is no damage.
func (k Kind) note() bool { return k == UnknownType || k == UnknownFamily }

// Problem is one thing that is wrong.
type Problem struct {
	Kind      Kind   `json:"kind"`
	File      string `json:"file,omitempty"`
	Family    string `json:"family,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Key       string `json:"key,omitempty"` // quoted as in Go if it is not plain text
	Type      string `json:"type,omitempty"`
	Detail    string `json:"detail"`
	Repair    string `json:"repair,omitempty"` // what Repair did; empty = nothing
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
	Empty   int64 `json:"empty"`   // empty collections, whose records a compaction will drop as well
}

// Garbage counts subkeys that commands do not see. Compactions drop all of them except Outside.
type Garbage struct {
	Orphans     int64 `json:"orphans"`      // the key was deleted, or has another type now
	OldVersions int64 `json:"old_versions"` // the key was created again
	Expired     int64 `json:"expired"`
	// Outside counts elements beyond the indexes of their list. They are deleted with the list.
	Outside int64 `json:"outside_of_lists"`
}

// Files counts what was read from files.
type Files struct {
	Tables     int   `json:"tables"`
	TableBytes int64 `json:"table_bytes"`
	Blobs      int   `json:"blobs"`
	BlobBytes  int64 `json:"blob_bytes"`
	LogTail    int64 `json:"log_tail_bytes"` // of an incomplete last write, as a crash leaves it
}

// maxProblems is the max number of problems in a report; further ones are only counted.
const maxProblems = 10000

// Report is the result of a check.
type Report struct {
	Dir      string            `json:"dir"`
	Slots    bool              `json:"cluster_slots"` // keys contain their cluster slot
	Files    Files             `json:"files"`
	Types    map[string]*Count `json:"types"`
	Scripts  int64             `json:"scripts"`
	Library  int64             `json:"libraries"`
	Indexes  int64             `json:"search_records"`
	Garbage  Garbage           `json:"garbage"`
	Found    map[Kind]int64    `json:"found"`
	Problems []Problem         `json:"problems"` // the first 10,000
	Repaired int64             `json:"repaired"`
	Left     int64             `json:"left"`              // unrepaired problems, without notes
	Dropped  string            `json:"dropped,omitempty"` // the file with the dropped records
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

// Show makes bytes readable: plain text is unchanged, other bytes are quoted.
func Show(b []byte) string {
	s := string(b)
	if q := strconv.Quote(s); s == "" || len(q) != len(s)+2 {
		return q
	}
	return s
}
