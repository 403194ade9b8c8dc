package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/server/replication/proto"
)

// Format is the version of the repository's format.
const Format = 1

// ErrDamaged: an object is missing, or differs from what was stored. The text names it.
var ErrDamaged = errors.New("the backup is damaged")

var ErrNoBackup = errors.New("there is no such backup")

// Repo is a repository.
type Repo struct {
	Store
	now func() time.Time
}

const markName = "basalt-backups.json"

type mark struct {
	Format int `json:"format"`
}

// Open opens a repository. With create, an empty place becomes one.
func Open(ctx context.Context, location string, create bool) (*Repo, error) {
	s, err := OpenStore(location, create)
	if err != nil {
		return nil, err
	}
	return OpenRepo(ctx, s, create)
}

// OpenRepo is [Open] for a store.
func OpenRepo(ctx context.Context, s Store, create bool) (*Repo, error) {
	r := &Repo{Store: s, now: time.Now}
	b, err := get(ctx, s, markName, 1<<10)
	if err == nil {
		var m mark
		if err := json.Unmarshal(b, &m); err != nil {
			return nil, fmt.Errorf("%w: %s: %s is no JSON", ErrDamaged, s, markName)
		}
		if m.Format != Format {
			return nil, fmt.Errorf("%s has format %d: this version knows %d", s, m.Format, Format)
		}
		return r, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !create {
		return nil, fmt.Errorf("%s holds no backups", s)
	}
	errOther := errors.New("other files")
	err = s.List(ctx, "", func(o Object) error { return fmt.Errorf("%w: %s", errOther, o.Name) })
	if errors.Is(err, errOther) {
		return nil, fmt.Errorf("%s holds other files than backups", s)
	}
	if err != nil {
		return nil, err
	}
	b, _ = json.Marshal(mark{Format})
	return r, put(ctx, s, markName, b)
}

// Backup describes one backup.
type Backup struct {
	ID string `json:"id"`
	// Time is at or after the newest write in the backup, by the clock of the program that made it.
	Time time.Time `json:"time"`
	// Sequence is RocksDB's sequence number of the newest write.
	Sequence uint64 `json:"sequence"`
	Source   string `json:"source"`             // HOST:PORT or a directory
	Timeline string `json:"timeline,omitempty"` // the timeline that continues after this backup
	Files    []File `json:"files"`
	Log      []File `json:"log,omitempty"` // segments with the last writes of the backup
	Checksum string `json:"checksum"`      // SHA-256 of all other fields
}

// File is a file of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Table  string `json:"table,omitempty"` // see creation.table
}

// Size returns the total size in bytes of the files of a backup.
func (b *Backup) Size() (n int64) {
	for _, f := range slices.Concat(b.Files, b.Log) {
		n += f.Size
	}
	return n
}

// object returns the name of the object with a file's content.
func (f *File) object() string {
	name := "files/" + f.SHA256[:2] + "/" + f.SHA256 + "-" + strconv.FormatInt(f.Size, 10)
	if f.Table != "" {
		name += "-" + f.Table
	}
	return name
}

var fileObject = regexp.MustCompile(`^files/[0-9a-f]{2}/([0-9a-f]{64})-([0-9]+)(?:-([0-9a-f]{32,48}))?$`)

// parseObject is the inverse of object, without the name of the file.
func parseObject(name string) (f File, ok bool) {
	m := fileObject.FindStringSubmatch(name)
	if m == nil {
		return f, false
	}
	size, err := strconv.ParseInt(m[2], 10, 64)
	return File{SHA256: m[1], Size: size, Table: m[3]}, err == nil
}

const backupsPrefix = "backups/"

func backupObject(id string) string { return backupsPrefix + id + ".json" }

// maxBackup is the max size of a backup's description: some 5 million files.
const maxBackup = 1 << 30

func checksum(b *Backup) string {
	c := *b
	c.Checksum = ""
	text, _ := json.Marshal(&c)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// putBackup stores the description of a backup, which makes it exist.
func (r *Repo) putBackup(ctx context.Context, b *Backup) error {
	b.Checksum = checksum(b)
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return err
	}
	return put(ctx, r, backupObject(b.ID), text)
}

func (r *Repo) Backup(ctx context.Context, id string) (*Backup, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("%w: %q", ErrNoBackup, id)
	}
	text, err := get(ctx, r, backupObject(id), maxBackup)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s in %s", ErrNoBackup, id, r)
	}
	if err != nil {
		return nil, err
	}
	b := new(Backup)
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrDamaged, backupObject(id), err)
	}
	if b.ID != id || b.Checksum != checksum(b) {
		return nil, fmt.Errorf("%w: %s: its checksum is wrong", ErrDamaged, backupObject(id))
	}
	for _, f := range slices.Concat(b.Files, b.Log) {
		ok := len(f.SHA256) == 64 && f.Size >= 0
		if ok {
			_, ok = parseObject(f.object())
		}
		if !ok {
			return nil, fmt.Errorf("%w: %s: file %q", ErrDamaged, backupObject(id), f.Name)
		}
	}
	for _, f := range b.Files {
		if !proto.ValidName(f.Name) {
			return nil, fmt.Errorf("%w: %s: file %q", ErrDamaged, backupObject(id), f.Name)
		}
	}
	return b, nil
}

// Backups returns all backups, oldest first. It skips damaged descriptions and joins them in the error, which wraps
// ErrDamaged; with any other error the list is nil.
func (r *Repo) Backups(ctx context.Context) ([]*Backup, error) {
	var ids []string
	err := r.List(ctx, backupsPrefix, func(o Object) error {
		if id, ok := strings.CutSuffix(strings.TrimPrefix(o.Name, backupsPrefix), ".json"); ok && validID.MatchString(id) {
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []*Backup
	var damaged []error
	for _, id := range ids {
		b, err := r.Backup(ctx, id)
		switch {
		case err == nil:
			all = append(all, b)
		case errors.Is(err, ErrNoBackup): // removed meanwhile
		case errors.Is(err, ErrDamaged):
			damaged = append(damaged, err)
		default:
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b *Backup) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)) })
	return all, errors.Join(damaged...)
}

var validID = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}$`)

// IsID reports whether s has the form of a backup's id.
func IsID(s string) bool { return validID.MatchString(s) }

// newID returns the id of a new backup or timeline: the time and a random part.
func (r *Repo) newID() string { return idOf(r.now()) }

const idTime = "20060102T150405Z"

func idOf(t time.Time) string { return t.UTC().Format(idTime) + "-" + randomHex(2) }

// newest returns the time, to the second, in the id of the newest backup; zero = none.
func (r *Repo) newest(ctx context.Context) (newest time.Time, err error) {
	err = r.List(ctx, backupsPrefix, func(o Object) error {
		id := strings.TrimSuffix(strings.TrimPrefix(o.Name, backupsPrefix), ".json")
		if t, err := time.Parse(idTime, id[:min(len(idTime), len(id))]); err == nil && t.After(newest) {
			newest = t
		}
		return nil
	})
	return newest, err
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// stored lists the files in the repository.
type stored struct {
	tables map[string]File // by File.Table and size
	files  map[string]bool // names of objects
}

func tableKey(id string, size int64) string { return id + "-" + strconv.FormatInt(size, 10) }

// storedFiles lists the files. It ignores an object whose length differs from that in its name.
func (r *Repo) storedFiles(ctx context.Context) (*stored, error) {
	s := &stored{tables: map[string]File{}, files: map[string]bool{}}
	return s, r.List(ctx, "files/", func(o Object) error {
		if f, ok := parseObject(o.Name); ok && f.Size == o.Size {
			s.files[o.Name] = true
			if f.Table != "" {
				s.tables[tableKey(f.Table, f.Size)] = f
			}
		}
		return nil
	})
}
