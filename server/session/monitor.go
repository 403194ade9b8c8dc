package session

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
)

// monitors are the connections that have sent MONITOR. A line for each command goes into their outboxes, like
// messages of pub/sub: commands do not wait for monitors, and a monitor that does not read is disconnected at the
// output limit.
type monitors struct {
	mu    sync.RWMutex
	conns []*conn
}

// Monitor makes the connection receive the commands of all clients of its namespace. An administrator, and a
// connection of the default namespace, receives the commands of all clients. Monitor reports whether the connection
// was not a monitor before.
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

// StopMonitor ends the effect of Monitor.
func (c *conn) StopMonitor() {
	if !c.monitoring {
		return
	}
	c.monitoring = false
	m := &c.srv.monitors
	m.mu.Lock()
	m.conns = slices.DeleteFunc(m.conns, func(x *conn) bool { return x == c })
	m.mu.Unlock()
	// Counted again with mu held: another monitor may begin meanwhile.
	c.srv.observe(func(o *observed) { o.monitored = m.len() > 0 })
}

func (m *monitors) len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.conns)
}

// feed sends a finished command to the monitors; from is the address of the client, or lua. As in Redis, commands of
// administrators are not shown.
func (m *monitors) feed(c *run, r *request, from string) {
	if r.spec.Flags&(command.SkipMonitor|command.Admin) == 0 {
		m.show(c, r, from)
	}
}

// show is feed without the exception for administrators' commands.
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
		if to == c.conn { // after its reply
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
			b = resp.AppendQuoted(b, a)
		}
	}
	return append(b, '\r', '\n')
}
