// Package fullsync fetches a checkpoint of a Kvrocks master into a directory. It continues interrupted attempts:
//
//	_fetch_meta       names of the files of a checkpoint of the master
//	                  all other files in the directory are deleted
//	_fetch_file       CURRENT and MANIFEST, which contain the sizes of the others
//	                  the free space on the disk is checked
//	_fetch_file       the rest, over 4 connections when there are more than 20
//
// A file is received under its name with ".part", and renamed when it is on the disk. The next attempt fetches only the
// missing files: table and blob files are kept if name and size are the same, because RocksDB uses each of their
// numbers once. All others are fetched again, because a later checkpoint may have different files of the same name.
package fullsync

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine/manifest"
	"github.com/basaltdb/basalt/server/replication/lineconn"
	"github.com/basaltdb/basalt/server/replication/proto"
)

const (
	partSuffix = ".part"
	// spaceLeft is the free space in bytes that a full sync leaves on the disk.
	spaceLeft    = 64 << 20
	progressStep = 10 * time.Second // between two lines in the log
)

// Bounds of time.
const (
	answerTimeout  = 10 * time.Second // for sending a request
	listTimeout    = 10 * time.Minute // for a master that is making a checkpoint
	silenceTimeout = 30 * time.Second // for a master that is sending files
)

// Options are the options of [New].
type Options struct {
	Dir   string // destination of the files
	Log   *zap.Logger
	Meter *Meter
	// Dial connects to the master.
	Dial func() (*lineconn.Conn, error)
}

// Fetcher fetches files in one or more attempts.
type Fetcher struct {
	Options
	have  map[string]bool  // complete files
	sized map[string]int64 // sizes of this attempt's files, from the MANIFEST
}

func New(o Options) *Fetcher { return &Fetcher{Options: o} }

// Clear deletes what was fetched.
func (f *Fetcher) Clear() error { return os.RemoveAll(f.Dir) }

// Taken is called when the directory has become the database.
func (f *Fetcher) Taken() { f.have = nil }

// List begins an attempt. It returns the names of the files of a checkpoint.
func (f *Fetcher) List() ([]string, error) {
	names, err := f.askList()
	if err != nil {
		return nil, fmt.Errorf("the list of files: %w", err)
	}
	f.sized = nil
	f.Meter.Begin(len(names))
	if err := f.prepareDir(names); err != nil {
		return nil, proto.Refuse("preparing "+f.Dir, err)
	}
	return names, nil
}

// askList requests the names of the files.
func (f *Fetcher) askList() ([]string, error) {
	c, err := f.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(answerTimeout))
	if _, err := c.Write(proto.AppendFetchMeta(nil)); err != nil {
		return nil, err
	}
	// The master writes its memtables to files to make a checkpoint.
	c.SetReadDeadline(time.Now().Add(listTimeout))
	line, err := c.Line(proto.MaxFileList)
	if err != nil {
		return nil, err
	}
	names, err := proto.ParseFileList(line)
	if err != nil {
		return nil, proto.Refuse("_fetch_meta", err)
	}
	if !slices.Contains(names, "CURRENT") {
		return nil, proto.Refuse("_fetch_meta", errors.New("there is no CURRENT among the files"))
	}
	return names, nil
}

// lasting reports whether a file of this name never changes.
func lasting(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// prepareDir creates the directory, and deletes files that are not needed.
func (f *Fetcher) prepareDir(names []string) error {
	dir := f.Dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[n] = true
	}
	for _, e := range entries {
		if !lasting(e.Name()) || !wanted[e.Name()] || !f.have[e.Name()] {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if f.have == nil {
		f.have = map[string]bool{}
	}
	return nil
}

// Fetch fetches the missing files.
func (f *Fetcher) Fetch(names []string) error {
	var head, rest []string
	for _, n := range names {
		if n == "CURRENT" || strings.HasPrefix(n, "MANIFEST-") {
			head = append(head, n)
		} else {
			rest = append(rest, n)
		}
	}
	var have sync.Mutex // guards f.have
	if err := f.fetch(head, &have); err != nil {
		return err
	}
	sizes, err := f.sizes()
	if err != nil {
		return proto.Refuse("the MANIFEST of the master", err)
	}
	var missing []string
	var total, need, reused int64
	done := 0
	f.sized = sizes
	for _, n := range rest {
		size, known := sizes[n]
		total += size
		if info, err := os.Stat(filepath.Join(f.Dir, n)); err == nil {
			if lasting(n) && (!known || info.Size() == size) {
				reused += info.Size()
				done++
				continue
			}
			if err := os.Remove(filepath.Join(f.Dir, n)); err != nil {
				return proto.Refuse("a file of another size", err)
			}
		}
		need += size
		missing = append(missing, n)
	}
	f.Meter.Add(total, reused, done)
	if err := f.room(need); err != nil {
		return err
	}
	f.Log.Info("fetching files", zap.Int("files", len(missing)), zap.Int64("bytes", need), zap.Int("reused", done),
		zap.Int64("reused_bytes", reused))
	n := 1
	if len(names) > proto.ParallelFrom {
		n = proto.MaxParallel
	}
	stop := make(chan struct{})
	defer close(stop)
	go f.report(stop)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		var part []string
		for j := i; j < len(missing); j += n {
			part = append(part, missing[j])
		}
		if len(part) > 0 {
			all.Go(func() { errs[i] = f.fetch(part, &have) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// sizes returns the sizes in bytes of table and blob files by name, from the MANIFEST.
func (f *Fetcher) sizes() (map[string]int64, error) {
	m, err := manifest.Read(f.Dir)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for n, size := range m.TableSizes {
		sizes[fmt.Sprintf("%06d.sst", n)] = int64(size)
	}
	return sizes, nil
}

// room returns an error unless the disk has room for need bytes.
func (f *Fetcher) room(need int64) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(f.Dir, &s); err != nil {
		return proto.Refuse("the disk", err)
	}
	if free := int64(s.Bavail) * s.Bsize; need > free-spaceLeft {
		return proto.Refuse("the disk", fmt.Errorf("%w: %d bytes are missing and %d are free; %d more are left free",
			syscall.ENOSPC, need, free, int64(spaceLeft)))
	}
	return nil
}

func (f *Fetcher) report(stop <-chan struct{}) {
	t := time.NewTicker(progressStep)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-t.C:
			p := f.Meter.Get(now)
			f.Log.Info("fetching files", zap.Int("files", p.FilesDone), zap.Int("of_files", p.Files),
				zap.Int64("bytes", p.BytesDone), zap.Int64("of_bytes", p.Bytes),
				zap.Int64("bytes_per_second", p.Rate), zap.Duration("left", p.Left.Round(time.Second)))
		}
	}
}

// fetch fetches files over one connection.
func (f *Fetcher) fetch(names []string, have *sync.Mutex) error {
	c, err := f.Dial()
	if err != nil {
		return fmt.Errorf("fetching files: %w", err)
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(answerTimeout))
	if _, err := c.Write(proto.AppendFetchFiles(nil, names)); err != nil {
		return fmt.Errorf("fetching files: %w", err)
	}
	for _, name := range names {
		if err := f.receive(c, name); err != nil {
			return fmt.Errorf("fetching %s: %w", name, err)
		}
		have.Lock()
		f.have[name] = true
		have.Unlock()
		f.Meter.Add(0, 0, 1)
	}
	return nil
}

func (f *Fetcher) receive(c *lineconn.Conn, name string) error {
	c.SetReadDeadline(time.Now().Add(silenceTimeout))
	line, err := c.Line(proto.MaxLine)
	if err != nil {
		return err
	}
	size, err := proto.ParseFileHead(line)
	if err != nil {
		return proto.Refuse("its size", err)
	}
	if _, ok := f.sized[name]; !ok {
		f.Meter.Add(size, 0, 0)
	}
	if err := f.room(size); err != nil {
		return err
	}
	path := filepath.Join(f.Dir, name)
	file, err := os.Create(path + partSuffix)
	if err != nil {
		return proto.Refuse("the disk", err)
	}
	err = f.copy(file, c, size)
	if err == nil {
		err = file.Sync()
	}
	if e := file.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(path+partSuffix, path)
	}
	return err
}

// copyStep is the number of bytes after which the deadline of the connection is extended.
const copyStep = 1 << 20

// copy copies one file from the connection.
func (f *Fetcher) copy(file *os.File, c *lineconn.Conn, size int64) error {
	for size > 0 {
		c.SetReadDeadline(time.Now().Add(silenceTimeout))
		n, err := c.CopyN(file, min(size, copyStep))
		size -= n
		f.Meter.Came(n)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}
