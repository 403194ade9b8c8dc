package session

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/command"
)

// monitors are the connections that have sent MONITOR. A line for each command goes into their outboxes, as messages
// of pub/sub do: nobody waits for them, and one that does not read is cut off at the output limit.
type monitors struct {
	mu    sync.RWMutex
	conns []*conn
}

// Monitor makes the connection see the commands of all clients of its namespace; of an administrator, and in the
// default namespace, of all clients. It reports whether it did not before.
func (c *conn) Monitor() bool {
	m := &c.srv.monitors
	if c.monitoring {
		return false
	}
	c.monitoring, c.monitorAll = true, c.sess.Admin
	m.mu.Lock()
	m.conns = append(m.conns, c)
	m.mu.Unlock()
	c.srv.observe(func(o *observed) { o.monitored = true })
	return true
}

// StopMonitor is the end of it.
func (c *conn) StopMonitor() {
	if !c.monitoring {
		return
	}
	c.monitoring = false
	m := &c.srv.monitors
	m.mu.Lock()
	m.conns = slices.DeleteFunc(m.conns, func(x *conn) bool { return x == c })
	m.mu.Unlock()
	// Looked at again inside: another one may begin meanwhile.
	c.srv.observe(func(o *observed) { o.monitored = m.len() > 0 })
}

func (m *monitors) len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.conns)
}

// feed shows a command that has run; from is the address of the client, or lua. Commands of administrators are not
// shown, as in Redis.
func (m *monitors) feed(c *run, r *request, from string) {
	if r.spec.Flags&(command.SkipMonitor|command.Admin) == 0 {
		m.show(c, r, from)
	}
}

// show is feed for all commands.
func (m *monitors) show(c *run, r *request, from string) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var line []byte
	for _, to := range m.conns {
		if ns := to.info.view.Load().namespace; !to.monitorAll && ns != cf.DefaultNamespace && ns != c.sess.Namespace {
			continue
		}
		if line == nil {
			line = appendMonitorLine(nil, time.Now(), c.srv.databaseName(c.sess.Namespace), from, r)
		}
		if to == c.conn { // behind its reply
			c.batch.PostOwn(line)
		} else {
			c.batch.Post(to.wire, line)
		}
	}
}

// appendMonitorLine writes the time, the database or namespace and the address of the client, and the arguments with
// quotes: a status reply in either protocol.
func appendMonitorLine(b []byte, now time.Time, database, addr string, r *request) []byte {
	b = append(b, '+')
	b = strconv.AppendInt(b, now.Unix(), 10)
	b = append(b, '.')
	usec := strconv.Itoa(1_000_000 + now.Nanosecond()/1000)
	b = append(append(b, usec[1:]...), " ["...)
	b = append(append(append(append(b, database...), ' '), addr...), ']')
	for i, a := range r.args {
		b = append(b, ' ')
		if command.Secret(r.spec, r.args, i) {
			b = append(b, `"`+command.Redacted+`"`...)
		} else {
			b = command.AppendQuoted(b, a)
		}
	}
	return append(b, '\r', '\n')
}
