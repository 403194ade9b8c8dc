package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/engine/manifest"
	"github.com/basaltdb/basalt/engine/wal"
	"github.com/basaltdb/basalt/internal/progress"
)

// CreateOptions configure a backup.
type CreateOptions struct {
	Parallel int           // parallel transfers; 0 = 4
	Progress *progress.Bar // nil = none

	// began is called when the sequence number of the backup is known, before most files are transferred.
	began func(sequence uint64) error
	// timeline is called at the end and returns the value of Backup.Timeline.
	timeline func() string
}

// Created describes a new backup.
type Created struct {
	*Backup
	NewFiles, NewBytes       int64
	ReusedFiles, ReusedBytes int64
	Took                     time.Duration
}

// attempts is how often a backup is retried because the server has deleted its checkpoint. Stored files are reused.
const attempts = 3

// CreateFromDir makes a backup of a database that no process has open.
func (r *Repo) CreateFromDir(ctx context.Context, dir string, o CreateOptions) (*Created, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return r.create(ctx, o, abs, nil, func(context.Context) (snapshot, error) { return openDirSnapshot(dir) })
}

// CreateFromServer makes a backup of a running server. It contains all writes before its beginning.
func (r *Repo) CreateFromServer(ctx context.Context, s *Server, o CreateOptions) (*Created, error) {
	return r.create(ctx, o, s.Addr, s, s.snapshot)
}

func (r *Repo) create(ctx context.Context, o CreateOptions, source string, s *Server,
	open func(context.Context) (snapshot, error)) (*Created, error) {
	ctx, lock, err := r.lock(ctx, backupLock)
	if err != nil {
		return nil, err
	}
	defer lock.release()
	for try := 1; ; try++ {
		c := &creation{r: r, o: o, source: source, server: s, began: time.Now()}
		created, err := c.run(ctx, open)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return nil, cause
		}
		if !errors.Is(err, errGone) || try == attempts {
			return created, err
		}
	}
}

// creation is one attempt to make a backup.
type creation struct {
	r      *Repo
	o      CreateOptions
	source string
	server *Server // nil = a directory
	began  time.Time
	floor  time.Time // the backup is not older than that

	have *stored
	snap snapshot
	head string // directory with copies of the files that describe the others
	m    *manifest.Manifest

	mu      sync.Mutex
	files   []File
	created Created
}

func (c *creation) run(ctx context.Context, open func(context.Context) (snapshot, error)) (_ *Created, err error) {
	if c.have, err = c.r.storedFiles(ctx); err != nil {
		return nil, err
	}
	// The newest backup is the one that is restored, and kept. So a clock that was ahead when an earlier one was made, and
	// was set back, does not make this one older.
	newest, err := c.r.newest(ctx)
	if err != nil {
		return nil, err
	}
	if newest.After(c.r.now()) {
		c.floor = newest.Add(time.Second)
	}
	var begin uint64
	if c.server != nil && c.o.timeline == nil {
		if begin, err = c.server.sequence(ctx); err != nil {
			return nil, err
		}
	}
	if c.snap, err = open(ctx); err != nil {
		return nil, err
	}
	defer c.snap.close()
	b := &Backup{Time: c.now(), Source: c.source}
	if c.head, err = os.MkdirTemp("", "basalt-backup-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(c.head)
	if b.Sequence, err = c.readHead(ctx); err != nil {
		return nil, err
	}
	if c.o.began != nil {
		if err := c.o.began(b.Sequence); err != nil {
			return nil, err
		}
	}
	if begin > b.Sequence { // the server has reused an older checkpoint
		tail, err := c.tail(ctx, b, begin)
		if err != nil {
			return nil, fmt.Errorf("the writes behind the server's checkpoint: %w", err)
		}
		b.Log = []File{*tail}
		c.created.NewFiles++
		c.created.NewBytes += tail.Size
	}
	if err := c.storeAll(ctx); err != nil {
		return nil, err
	}
	if err := c.stillThere(ctx); err != nil {
		return nil, err
	}
	b.Files = c.files
	slices.SortFunc(b.Files, func(x, y File) int { return strings.Compare(x.Name, y.Name) })
	if c.o.timeline != nil {
		b.Timeline = c.o.timeline()
	}
	b.ID = idOf(c.now())
	if err := c.r.putBackup(ctx, b); err != nil {
		return nil, err
	}
	c.created.Backup, c.created.Took = b, time.Since(c.began)
	return &c.created, nil
}

// now returns the present, rounded up to a millisecond.
func (c *creation) now() time.Time {
	if now := c.r.now().UTC().Truncate(time.Millisecond).Add(time.Millisecond); now.After(c.floor) {
		return now
	}
	return c.floor
}

// isHead reports whether a file describes the other files.
func isHead(name string) bool {
	return name == "CURRENT" || strings.HasPrefix(name, "MANIFEST-") || strings.HasSuffix(name, ".log")
}

// readHead copies CURRENT, the MANIFEST and the logs, and returns the sequence number of the newest write.
func (c *creation) readHead(ctx context.Context) (uint64, error) {
	for _, name := range c.snap.names() {
		if !isHead(name) {
			continue
		}
		in, _, err := c.snap.open(ctx, name)
		if err != nil {
			return 0, err
		}
		err = writeFile(filepath.Join(c.head, name), in)
		in.Close()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	m, err := manifest.Read(c.head)
	if err != nil {
		return 0, err
	}
	c.m = m
	logs, err := wal.Check(c.head, wal.State{MinLog: m.MinLog, LastSequence: m.LastSequence})
	if err != nil {
		return 0, err
	}
	if logs.Loss != nil {
		return 0, fmt.Errorf("the source is damaged: %s", logs.Loss)
	}
	return max(m.LastSequence, logs.Last), nil
}

func writeFile(path string, in io.Reader) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Close())
}

// table returns what tells a table file from all others, and its size, if RocksDB recorded them: the unique id, and the
// sequence number if all records have the same one. For a file may be ingested twice, and RocksDB writes another number
// into each copy.
func (c *creation) table(name string) (id string, size int64) {
	var n uint64
	if filepath.Ext(name) != ".sst" {
		return "", 0
	}
	if _, err := fmt.Sscanf(name, "%d.sst", &n); err != nil {
		return "", 0
	}
	id = hex.EncodeToString(c.m.TableIDs[n])
	if sequence := c.m.TableSequences[n]; sequence != 0 && id != "" {
		id += fmt.Sprintf("%016x", sequence)
	}
	return id, int64(c.m.TableSizes[n])
}

// storeAll stores the files that the repository does not have.
func (c *creation) storeAll(ctx context.Context) error {
	var missing []string
	var total int64
	for _, name := range c.snap.names() {
		id, size := c.table(name)
		if f, ok := c.have.tables[tableKey(id, size)]; ok && id != "" {
			f.Name = name
			c.reuse(f)
			continue
		}
		missing = append(missing, name)
		total += size
	}
	c.o.Progress.SetTotal(total)
	jobs := make([]func(context.Context) error, 0, len(missing))
	for _, name := range missing {
		jobs = append(jobs, func(ctx context.Context) error { return c.store(ctx, name) })
	}
	return parallel(ctx, c.o.Parallel, jobs, func(err error) error { return err })
}

func (c *creation) reuse(f File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = append(c.files, f)
	c.created.ReusedFiles++
	c.created.ReusedBytes += f.Size
}

// store stores a file.
func (c *creation) store(ctx context.Context, name string) error {
	in, size, err := c.open(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	c.o.Progress.Note(name)
	w, err := c.r.Create(ctx)
	if err != nil {
		return err
	}
	defer w.Abort()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum, c.o.Progress), in)
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes instead of %d", n, size)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f := File{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}
	if id, known := c.table(name); known == size {
		f.Table = id
	}
	c.mu.Lock()
	stored := c.have.files[f.object()]
	c.mu.Unlock()
	if stored {
		c.reuse(f)
		return nil
	}
	if err := w.Commit(f.object()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.have.files[f.object()] = true
	c.files = append(c.files, f)
	c.created.NewFiles++
	c.created.NewBytes += size
	return nil
}

// open opens a file of the snapshot, or its copy.
func (c *creation) open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if !isHead(name) {
		return c.snap.open(ctx, name)
	}
	return opened(os.Open(filepath.Join(c.head, name)))
}

// stillThere checks that all objects of the backup exist: someone may have removed some by hand.
func (c *creation) stillThere(ctx context.Context) error {
	have, err := c.r.storedFiles(ctx)
	if err != nil {
		return err
	}
	for _, f := range c.files {
		if !have.files[f.object()] {
			return fmt.Errorf("%s was removed while the backup was made: try again", f.object())
		}
	}
	return nil
}

// tail stores the writes after the checkpoint of a backup, up to a sequence number, and advances the backup to it.
func (c *creation) tail(ctx context.Context, b *Backup, until uint64) (*File, error) {
	s, err := c.server.stream(ctx, b.Sequence+1)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	seg, err := newSegment(ctx, c.r, c.r.newID(), time.Time{})
	if err != nil {
		return nil, err
	}
	defer seg.abort()
	for b.Sequence < until {
		rep, _, err := s.next()
		if err != nil {
			return nil, err
		}
		if rep == nil {
			continue
		}
		first, last := span(rep)
		if first != b.Sequence+1 {
			return nil, fmt.Errorf("sequence number %d comes after %d", first, b.Sequence)
		}
		at := c.now()
		if err := seg.add(rep, at); err != nil {
			return nil, err
		}
		b.Sequence, b.Time = last, at
	}
	return seg.commitFile()
}
