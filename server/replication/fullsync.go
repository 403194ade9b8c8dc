package replication

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/manifest"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// A full sync, into the directory o.Dir:
//
//	_fetch_meta       names of the files of a checkpoint of the master
//	                  files that are there and not among them are deleted
//	_fetch_file       CURRENT and MANIFEST, which tell the sizes of the others
//	                  the disk is looked at: is there room?
//	_fetch_file       the rest, over 4 connections when there are more than 20
//	                  engine.DB.Replace
//
// A file arrives under its name with ".part" and is renamed when it is on the disk. So an attempt that is cut goes on
// with what is missing: table and blob files, whose numbers RocksDB gives once, are kept when name and size are the
// same. All others are fetched again, because a later checkpoint may have others of the same name. What a former
// master has sent is deleted when a link begins.

const (
	partSuffix = ".part"
	// spaceLeft is how much room a full sync leaves on the disk.
	spaceLeft    = 64 << 20
	progressStep = 10 * time.Second // between two lines of the log
)

// SyncProgress is how far a full sync is.
type SyncProgress struct {
	Files, FilesDone int
	Bytes, BytesDone int64         // of files whose size is known; those that were there already count
	Rate             int64         // bytes a second
	Left             time.Duration // 0 = not known
}

type progress struct {
	mu     sync.Mutex
	p      SyncProgress
	began  time.Time
	reused int64
	bytes  atomic.Int64 // received
}

func (p *progress) begin(files int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p, p.began, p.reused = SyncProgress{Files: files}, time.Now(), 0
	p.bytes.Store(0)
}

// add notes files whose sizes are known, of which some bytes are here.
func (p *progress) add(total, reused int64, done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p.Bytes += total
	p.reused += reused
	p.p.FilesDone += done
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p, p.began = SyncProgress{}, time.Time{}
}

func (p *progress) get(now time.Time) SyncProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.p
	if p.began.IsZero() {
		return s
	}
	got := p.bytes.Load()
	s.BytesDone = got + p.reused
	if took := now.Sub(p.began); took > 0 {
		s.Rate = int64(float64(got) / took.Seconds())
	}
	if left := s.Bytes - s.BytesDone; left > 0 && s.Rate > 0 {
		s.Left = time.Duration(float64(left) / float64(s.Rate) * float64(time.Second))
	}
	return s
}

// clearFiles deletes what a former full sync has left.
func (l *link) clearFiles() error { return os.RemoveAll(l.r.o.Dir) }

// fullSync replaces the database by a copy of the master's.
func (l *link) fullSync() error {
	l.log.Info("a full synchronisation begins")
	began := time.Now()
	defer l.progress.end()
	l.sized = nil
	l.setState(FetchingMeta)
	names, err := l.fetchList()
	if err != nil {
		return describe("the list of files", err)
	}
	l.progress.begin(len(names))
	if err := l.prepareDir(names); err != nil {
		return stepError{"preparing " + l.r.o.Dir, err}
	}
	if l.r.settings.Load().EmptyFirst {
		if err := l.empty(); err != nil {
			return stepError{"emptying the database", err}
		}
	}
	l.setState(FetchingFiles)
	if err := l.fetchAll(names); err != nil {
		return err
	}
	if err := l.replace(l.r.o.Dir); err != nil {
		// It may be that files of two databases have got together.
		return errors.Join(stepError{"replacing the database", err}, l.clearFiles())
	}
	l.forceFull, l.own, l.have = false, false, nil
	l.r.ownHistory.Store(false)
	l.log.Info("a full synchronisation has ended", zap.Duration("took", time.Since(began)),
		zap.Uint64("sequence", l.db.LatestSequence()))
	return nil
}

// replace exchanges the database.
func (l *link) replace(dir string) error {
	l.setState(Replacing)
	defer l.r.o.Replaced()
	defer l.r.o.Replacing()()
	return l.db.Replace(dir)
}

// fetchList asks for the names of the files.
func (l *link) fetchList() ([]string, error) {
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(answerTimeout))
	if _, err := c.Write(proto.AppendFetchMeta(nil)); err != nil {
		return nil, err
	}
	// To make a checkpoint the master writes its memtables to files.
	c.SetReadDeadline(time.Now().Add(listTimeout))
	line, err := c.line(proto.MaxFileList)
	if err != nil {
		return nil, err
	}
	names, err := proto.ParseFileList(line)
	if err != nil {
		return nil, stepError{"_fetch_meta", err}
	}
	if !slices.Contains(names, "CURRENT") {
		return nil, stepError{"_fetch_meta", errors.New("there is no CURRENT among the files")}
	}
	return names, nil
}

// listTimeout is how long a master may take to make a checkpoint.
const listTimeout = 10 * time.Minute

// lasting reports whether a file of this name never changes.
func lasting(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// prepareDir makes the directory, and deletes what is not wanted in it.
func (l *link) prepareDir(names []string) error {
	dir := l.r.o.Dir
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
		if !lasting(e.Name()) || !wanted[e.Name()] || !l.have[e.Name()] {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if l.have == nil {
		l.have = map[string]bool{}
	}
	return nil
}

// empty exchanges the database for an empty one, whose place is taken by nothing.
func (l *link) empty() error {
	dir := l.r.o.Dir + ".empty"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	db, err := engine.Open(engine.Options{Dir: dir, Slots: l.db.Slots()})
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	return l.replace(dir)
}

// fetchAll fetches the files that are not there.
func (l *link) fetchAll(names []string) error {
	var head, rest []string
	for _, n := range names {
		if n == "CURRENT" || strings.HasPrefix(n, "MANIFEST-") {
			head = append(head, n)
		} else {
			rest = append(rest, n)
		}
	}
	var have sync.Mutex // of l.have
	if err := l.fetch(head, &have); err != nil {
		return err
	}
	sizes, err := l.sizes()
	if err != nil {
		return stepError{"the MANIFEST of the master", err}
	}
	var missing []string
	var total, need, reused int64
	done := 0
	l.sized = sizes
	for _, n := range rest {
		size, known := sizes[n]
		total += size
		if info, err := os.Stat(filepath.Join(l.r.o.Dir, n)); err == nil {
			if lasting(n) && (!known || info.Size() == size) {
				reused += info.Size()
				done++
				continue
			}
			if err := os.Remove(filepath.Join(l.r.o.Dir, n)); err != nil {
				return stepError{"a file of another size", err}
			}
		}
		need += size
		missing = append(missing, n)
	}
	l.progress.add(total, reused, done)
	if err := l.room(need); err != nil {
		return err
	}
	l.log.Info("fetching files", zap.Int("files", len(missing)), zap.Int64("bytes", need), zap.Int("reused", done),
		zap.Int64("reused_bytes", reused))
	n := 1
	if len(names) > proto.ParallelFrom {
		n = proto.MaxParallel
	}
	stop := make(chan struct{})
	defer close(stop)
	go l.report(stop)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		var part []string
		for j := i; j < len(missing); j += n {
			part = append(part, missing[j])
		}
		if len(part) > 0 {
			all.Go(func() { errs[i] = l.fetch(part, &have) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// sizes returns the sizes of table and blob files by name, from the MANIFEST.
func (l *link) sizes() (map[string]int64, error) {
	m, err := manifest.Read(l.r.o.Dir)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for n, size := range m.TableSizes {
		sizes[fmt.Sprintf("%06d.sst", n)] = int64(size)
	}
	return sizes, nil
}

// room checks that so many bytes fit on the disk.
func (l *link) room(need int64) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(l.r.o.Dir, &s); err != nil {
		return stepError{"the disk", err}
	}
	if free := int64(s.Bavail) * s.Bsize; need > free-spaceLeft {
		return stepError{"the disk", fmt.Errorf("%w: %d bytes are missing and %d are free; %d more are left free",
			syscall.ENOSPC, need, free, int64(spaceLeft))}
	}
	return nil
}

// report logs how far it is.
func (l *link) report(stop <-chan struct{}) {
	t := time.NewTicker(progressStep)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-t.C:
			p := l.progress.get(now)
			l.log.Info("fetching files", zap.Int("files", p.FilesDone), zap.Int("of_files", p.Files),
				zap.Int64("bytes", p.BytesDone), zap.Int64("of_bytes", p.Bytes),
				zap.Int64("bytes_per_second", p.Rate), zap.Duration("left", p.Left.Round(time.Second)))
		}
	}
}

// fetch fetches files over one connection.
func (l *link) fetch(names []string, have *sync.Mutex) error {
	c, err := l.dial()
	if err != nil {
		return describe("fetching files", err)
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(answerTimeout))
	if _, err := c.Write(proto.AppendFetchFiles(nil, names)); err != nil {
		return describe("fetching files", err)
	}
	for _, name := range names {
		if err := l.receive(c, name); err != nil {
			return describe("fetching "+name, err)
		}
		have.Lock()
		l.have[name] = true
		have.Unlock()
		l.progress.add(0, 0, 1)
	}
	return nil
}

// receive reads a file.
func (l *link) receive(c *masterConn, name string) error {
	c.SetReadDeadline(time.Now().Add(silenceTimeout))
	line, err := c.line(proto.MaxLine)
	if err != nil {
		return err
	}
	size, err := proto.ParseFileHead(line)
	if err != nil {
		return stepError{"its size", err}
	}
	if _, ok := l.sized[name]; !ok {
		l.progress.add(size, 0, 0)
	}
	if err := l.room(size); err != nil {
		return err
	}
	path := filepath.Join(l.r.o.Dir, name)
	f, err := os.Create(path + partSuffix)
	if err != nil {
		return stepError{"the disk", err}
	}
	err = l.copy(f, c, size)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(path+partSuffix, path)
	}
	return err
}

// copyStep is after how many bytes the connection's deadline is set anew.
const copyStep = 1 << 20

// copy reads a file. From a socket without TLS the bytes stay in the kernel (splice).
func (l *link) copy(f *os.File, c *masterConn, size int64) error {
	for size > 0 {
		c.SetReadDeadline(time.Now().Add(silenceTimeout))
		var from io.Reader = c.in
		step := min(size, copyStep)
		if socket, ok := c.Conn.(*net.TCPConn); ok {
			if have := int64(c.in.Buffered()); have > 0 {
				step = min(step, have)
			} else {
				from = socket
			}
		}
		n, err := io.CopyN(f, from, step)
		if from != c.in {
			l.r.received.Add(n)
		}
		size -= n
		l.progress.bytes.Add(n)
		if n > 0 {
			l.lastIO.Store(time.Now().UnixNano())
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}
