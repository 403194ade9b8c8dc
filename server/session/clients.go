package session

import (
	"slices"
	"time"
	"unsafe"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/pubsub"
	"github.com/basaltdb/basalt/server/wire"
)

// clients are the connections as commands see them.
type clients struct{ srv *Shared }

// List returns what CLIENT LIST shows of the connections, sorted by ID. A killed connection is no longer listed, even
// before its goroutine has noticed the kill.
func (t clients) List() []command.ClientInfo {
	s := t.srv
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		if !c.gone.Load() {
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(conns, func(a, b *conn) int { return int(a.sess.ID - b.sess.ID) })
	now := time.Now()
	list := make([]command.ClientInfo, len(conns))
	for i, c := range conns {
		list[i] = c.describe(now)
	}
	return list
}

// Close closes a connection and reports whether it existed.
func (t clients) Close(id int64) bool {
	s := t.srv
	c := s.byID(id)
	return c != nil && c.kill()
}

// describe returns what CLIENT LIST shows of the connection. Any goroutine may call it.
func (c *conn) describe(now time.Time) command.ClientInfo {
	v := c.info.view.Load()
	buffers, bytes := c.wire.Backlog()
	i := command.ClientInfo{
		ID: c.sess.ID, Addr: c.sess.Addr, LAddr: c.sess.LAddr, FD: c.info.fd,
		Name: v.name, Namespace: v.namespace, User: v.user, Proto: v.proto, LibName: v.libName, LibVer: v.libVer,
		Age: now.Sub(c.info.created), Idle: max(0, now.Sub(c.srv.started)-time.Duration(c.info.lastActive.Load())),
		Type: "normal", Multi: v.multi, MultiBytes: int64(v.queued), Watch: v.watch, Events: "r",
		QueryBuf: c.info.qbuf.Load(), ArgvBytes: c.info.argv.Load(), OutputList: int64(buffers), OutputBytes: int64(bytes),
		NetIn: c.info.netIn.Load(), NetOut: c.info.netOut.Load(), Commands: c.info.cmds.Load(),
		Overhead: connBytes + int64(v.subBytes) + int64(len(v.name)+len(v.libName)+len(v.libVer)),
	}
	if c.srv.Databases() > 0 {
		i.Databases = true
		i.DB, _ = cf.NamespaceDatabase(v.namespace)
	}
	i.QueryFree = max(0, c.info.qcap.Load()-i.QueryBuf)
	if i.Idle < 2*replyPeriod {
		i.ReplyPeak = c.info.replyPeak.Load()
	}
	if spec := c.info.lastCmd.Load(); spec != nil {
		i.Command = spec.FullName()
	}
	if bytes > 0 {
		i.Events = "rw"
	}
	// The flags are in the order of Redis.
	switch {
	case v.replica:
		i.Flags, i.Type = "S", "replica"
	case v.monitor:
		i.Flags = "O"
	}
	if v.subs != [3]int{} {
		i.Flags += "P"
		i.Type = "pubsub"
	}
	if v.multi >= 0 {
		i.Flags += "x"
	}
	w := c.info.waiter.Load()
	if w != nil || c.info.paused.Load() {
		i.Flags += "b"
	}
	if w != nil {
		i.ArgvBytes = argBytes(w.wait.Args)
		i.Overhead += i.ArgvBytes
	}
	i.Redirect = -1
	if t := c.info.track.Load(); t != nil {
		i.Redirect = t.Target()
		i.Flags += t.Letters()
		for _, p := range t.Prefixes {
			i.Overhead += int64(pubsub.NameBytes(p))
		}
	}
	if v.watched != nil && v.watched.Dirty() {
		i.Flags += "d"
	}
	if v.closing {
		i.Flags += "c"
	}
	if c.info.unix {
		i.Flags += "U"
	}
	if v.noEvict {
		i.Flags += "e"
	}
	if v.noTouch {
		i.Flags += "T"
	}
	i.Sub, i.PSub, i.SSub = v.subs[command.Channel], v.subs[command.Pattern], v.subs[command.ShardChannel]
	if i.Flags == "" {
		i.Flags = "N"
	}
	return i
}

// connBytes is the memory of a connection itself, including the initial stack of its goroutine.
const connBytes = int64(unsafe.Sizeof(conn{})+unsafe.Sizeof(command.Session{})+unsafe.Sizeof(sessionView{})) +
	wire.Size + 2<<10

// argBytes returns the size of a command's arguments in bytes.
func argBytes(args [][]byte) (n int64) {
	for _, a := range args {
		n += int64(len(a))
	}
	return n
}
