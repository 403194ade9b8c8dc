package replication

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// checkpoint is the copy of the database that replicas fetch in a full sync. All that come within ShareFor get the same
// one; for one that comes later there is a new one, unless somebody still fetches the old one, whose log is kept as
// long. It is deleted when nobody has fetched from it for idleFiles, and never while somebody does.
type checkpoint struct {
	dir string
	db  *engine.DB
	log *zap.Logger

	mu    sync.Mutex
	names []string // nil = there is none
	have  map[string]bool
	seq   uint64 // it has all writes up to this one, and perhaps some more
	made  time.Time
	used  time.Time // somebody fetched then
	users int       // connections that fetch now
}

// idleFiles is longer than what a replica needs between two requests.
const idleFiles = 30 * time.Second

// list returns the names of the files of a checkpoint, which is made if need be.
func (c *checkpoint) list(shareFor time.Duration) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.names != nil && c.inLog() && (now.Sub(c.made) <= shareFor || c.busy(now)) {
		c.used = now
		return c.names, nil
	}
	if err := c.drop(); err != nil {
		return nil, err
	}
	c.seq, c.have = c.db.LatestSequence(), map[string]bool{}
	if err := c.db.Checkpoint(c.dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	for _, e := range entries {
		if e.Type().IsRegular() && proto.ValidName(e.Name()) {
			c.names, c.have[e.Name()] = append(c.names, e.Name()), true
		}
	}
	// CURRENT comes last: without it a directory is no database.
	slices.SortFunc(c.names, func(a, b string) int {
		if a == "CURRENT" || b == "CURRENT" {
			return strings.Compare(b, a) // greater than any other
		}
		return strings.Compare(a, b)
	})
	c.made = time.Now()
	c.used = c.made
	c.log.Info("a checkpoint was made for replicas", zap.Int("files", len(c.names)), zap.Uint64("sequence", c.seq),
		zap.Duration("took", c.made.Sub(now)))
	return c.names, nil
}

// inLog reports whether the log has what follows the checkpoint. c.mu is held.
func (c *checkpoint) inLog() bool {
	if c.seq == c.db.LatestSequence() {
		return true
	}
	log, err := c.db.WAL(c.seq + 1)
	if err != nil {
		return false
	}
	defer log.Close()
	rep, _, err := log.Next()
	return err == nil && rep != nil
}

// busy reports whether somebody fetches, or is about to. c.mu is held.
func (c *checkpoint) busy(now time.Time) bool { return c.users > 0 || now.Sub(c.used) <= idleFiles }

// drop deletes the checkpoint. c.mu is held.
func (c *checkpoint) drop() error {
	c.names, c.have = nil, nil
	if c.dir == "" {
		return errors.New("there is no directory for checkpoints")
	}
	return os.RemoveAll(c.dir)
}

// remove deletes the checkpoint whoever uses it, and what an earlier process has left.
func (c *checkpoint) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == "" {
		return
	}
	if err := c.drop(); err != nil {
		c.log.Warn("the checkpoint for replicas was not deleted", zap.Error(err))
	}
}

// expire deletes a checkpoint that nobody fetches, and returns what those who have fetched it need of the log.
func (c *checkpoint) expire(now time.Time) (next uint64, deleted bool) {
	if !c.mu.TryLock() {
		return 0, false // one is being made
	}
	defer c.mu.Unlock()
	if c.names == nil || c.busy(now) {
		return 0, false
	}
	if err := c.drop(); err != nil {
		c.log.Warn("the checkpoint for replicas was not deleted", zap.Error(err))
	} else {
		c.log.Info("the checkpoint for replicas was deleted: nobody fetches it")
	}
	return c.seq + 1, true
}

// needs returns from which sequence number on those who have the checkpoint need the log.
func (c *checkpoint) needs() uint64 {
	if !c.mu.TryLock() {
		return math.MaxUint64 // one is being made
	}
	defer c.mu.Unlock()
	if c.names == nil {
		return math.MaxUint64
	}
	return c.seq + 1
}

// enter opens the files of names for one who fetches them; leave ends that.
func (c *checkpoint) enter(names []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range names {
		if !c.have[n] {
			return errNoFile
		}
	}
	c.users++
	return nil
}

func (c *checkpoint) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.used = time.Now()
}

const errNoFile proto.Error = "no such file in the checkpoint"

// pieceBytes is how much of a file goes with one write.
const pieceBytes = 256 << 10

// SendList answers _fetch_meta, and closes the link.
func (m *Master) SendList(link Link) {
	done, ok := m.begin(link)
	if !ok {
		return
	}
	defer done()
	m.syncFull.Add(1)
	err := error(errNoLog)
	var names []string
	if s := m.settings.Load(); !s.NoLog {
		names, err = m.files.list(s.ShareFor)
	}
	answer := proto.AppendFileList(nil, names)
	if err != nil {
		m.log.Error("no checkpoint for a replica", zap.Error(err))
		answer = proto.AppendError(nil, proto.ErrCheckpoint)
	}
	m.put(link, answer)
}

// SendFiles answers _fetch_file, whose argument is the names of files of the checkpoint, and closes the link.
func (m *Master) SendFiles(link Link, list []byte) {
	done, ok := m.begin(link)
	if !ok {
		return
	}
	defer done()
	names, err := proto.ParseFileList(list)
	if err == nil {
		err = m.files.enter(names)
	}
	if err != nil {
		m.log.Warn("a replica has asked for files that do not exist", zap.Stringer("replica", link.RemoteAddr()),
			zap.Error(err))
		m.put(link, proto.AppendError(nil, errNoFile))
		return
	}
	defer m.files.leave()
	for _, n := range names {
		if err := m.sendFile(link, n); err != nil {
			m.log.Warn("a file was not sent to a replica", zap.String("file", n),
				zap.Stringer("replica", link.RemoteAddr()), zap.Error(err))
			return
		}
	}
}

// begin notes a link of a full sync.
func (m *Master) begin(link Link) (done func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.suspended > 0 {
		link.Close()
		return nil, false
	}
	m.links[link] = true
	m.users++
	return func() {
		link.Drain()
		link.Close()
		m.mu.Lock()
		delete(m.links, link)
		m.leave()
		m.mu.Unlock()
	}, true
}

// put sends b within the time that settings allow.
func (m *Master) put(link Link, b []byte) error {
	m.limitTime(link)
	n, err := link.Write(b)
	m.sent.Add(int64(n))
	return err
}

// limitTime sets how long the next write may take.
func (m *Master) limitTime(link Link) {
	if t := m.settings.Load().SendTimeout; t > 0 {
		link.SetWriteDeadline(time.Now().Add(t))
	}
}

// sendFile sends the size of a file and as many bytes of it.
func (m *Master) sendFile(link Link, name string) error {
	file, err := os.Open(filepath.Join(m.files.dir, name))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	left := info.Size()
	if err := m.put(link, proto.AppendFileHead(nil, left)); err != nil {
		return err
	}
	for left > 0 {
		n := min(left, pieceBytes)
		if err := m.sending.take(int(n), m.settings.Load().BytesPerSecond, m.stop); err != nil {
			return err
		}
		m.limitTime(link)
		if err := link.SendFile(file, n); err != nil {
			return err
		}
		m.sent.Add(n)
		left -= n
	}
	return nil
}

// limiter spreads bytes over time. All who send share it.
type limiter struct {
	mu   sync.Mutex
	free time.Time // when the next bytes may go
}

// take waits until n bytes may go at a rate of perSecond, 0 = any.
func (l *limiter) take(n int, perSecond int64, stop <-chan struct{}) error {
	if perSecond <= 0 {
		return nil
	}
	l.mu.Lock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	wait := l.free.Sub(now)
	l.free = l.free.Add(time.Duration(float64(n) / float64(perSecond) * float64(time.Second)))
	l.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stop:
		return errStopped
	}
}
