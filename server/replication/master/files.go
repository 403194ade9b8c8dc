package master

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/replication/checkpoint"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/rdbsync"
)

// pieceBytes is the max number of bytes of a file in one write.
const pieceBytes = 256 << 10

// SendList replies to _fetch_meta, and closes the link.
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
		names, err = m.files.List(s.ShareFor)
	}
	answer := proto.AppendFileList(nil, names)
	if err != nil {
		m.log.Error("no checkpoint for a replica", zap.Error(err))
		answer = proto.AppendError(nil, proto.ErrCheckpoint)
	}
	m.put(link, answer)
}

// SendFiles replies to _fetch_file, whose argument is a list of files of the checkpoint, and closes the link.
func (m *Master) SendFiles(link Link, list []byte) {
	done, ok := m.begin(link)
	if !ok {
		return
	}
	defer done()
	names, err := proto.ParseFileList(list)
	if err == nil {
		err = m.files.Enter(names)
	}
	if err != nil {
		m.log.Warn("a replica has requested files that do not exist", zap.Stringer("replica", link.RemoteAddr()),
			zap.Error(err))
		m.put(link, proto.AppendError(nil, checkpoint.ErrNoFile))
		return
	}
	defer m.files.Leave()
	for _, n := range names {
		if err := m.sendFile(link, n); err != nil {
			m.log.Warn("sending a file to a replica failed", zap.String("file", n),
				zap.Stringer("replica", link.RemoteAddr()), zap.Error(err))
			return
		}
	}
}

// SendRDB sends a client of Redis the data as an RDB file, and closes the link.
func (m *Master) SendRDB(link Link, what proto.Conf) {
	done, ok := m.begin(link)
	if !ok {
		return
	}
	defer done()
	m.syncFull.Add(1)
	m.copies.Send(link, what, rdbsync.Pace{Timeout: m.settings.Load().AckTimeout, Take: func(n int) error {
		m.sent.Add(int64(n))
		return m.sending.take(n, m.settings.Load().BytesPerSecond, m.stop)
	}})
}

// begin registers a link of a full sync.
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

// put sends b within the time that the settings allow.
func (m *Master) put(link Link, b []byte) error {
	m.limitTime(link)
	n, err := link.Write(b)
	m.sent.Add(int64(n))
	return err
}

// limitTime sets the deadline of the next write.
func (m *Master) limitTime(link Link) {
	if t := m.settings.Load().SendTimeout; t > 0 {
		link.SetWriteDeadline(time.Now().Add(t))
	}
}

// sendFile sends the size and the content of a file.
func (m *Master) sendFile(link Link, name string) error {
	file, err := m.files.Open(name)
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

// limiter limits a rate. All senders share it.
type limiter struct {
	mu   sync.Mutex
	free time.Time // when the next bytes may be sent
}

// take waits until n bytes may be sent at a rate of perSecond; 0 = no limit.
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
