package command

import (
	"time"

	"github.com/basaltdb/basalt/engine"
)

// Failover is what FAILOVER asks for.
type Failover struct {
	Host    string // the replica that shall take over; "" = any
	Port    int
	Force   bool          // when the time is up, it shall even if it lacks writes
	Timeout time.Duration // 0 = none
}

var failoverCommands = []Spec{
	{Name: "failover", Handler: failover, Arity: -1, Flags: Admin | NoScript | Stale | Solo | AdminOnly},
}

var errFailoverTimeout = engine.NewError("ERR", "FAILOVER timeout must be greater than 0")

// failover is FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]. It replies before it is done.
func failover(c *Ctx) error {
	var f Failover
	var ms int64
	o := options{args: c.Args[1:]}
	for o.more() {
		switch {
		case len(c.Args) == 2 && o.is("ABORT"):
			return replyOK(c, c.Srv.Replication.AbortFailover())
		case ms == 0 && o.int("TIMEOUT", &ms):
			o.check(ms > 0, errFailoverTimeout)
		case f.Host == "" && o.has("TO", 2):
			f.Host = string(o.next())
			port, ok := ParseInt(o.next())
			o.check(ok, ErrNotInteger)
			f.Port = int(port)
		case !f.Force && o.flag("FORCE", &f.Force):
		default:
			o.err = ErrSyntax
		}
	}
	if o.err != nil {
		return o.err
	}
	f.Timeout = min(time.Duration(ms), longestWait/time.Millisecond) * time.Millisecond
	r := c.Srv.Replication
	if r.IsReplica() {
		return errorf("FAILOVER is not valid when server is a replica.")
	}
	return replyOK(c, r.Failover(f))
}
