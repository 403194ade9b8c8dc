package command

import (
	"strings"
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

var (
	errFailoverTimeout = engine.NewError("ERR", "FAILOVER timeout must be greater than 0")
	errFailoverReplica = engine.NewError("ERR", "FAILOVER is not valid when server is a replica.")
)

// failover is FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]. It replies before it is done.
func failover(c *Ctx) error {
	var f Failover
	for args := c.Args[1:]; len(args) > 0; {
		switch word := strings.ToLower(string(args[0])); {
		case word == "abort" && len(c.Args) == 2:
			return replyOK(c, c.Srv.Replication.AbortFailover())
		case word == "timeout" && len(args) > 1 && f.Timeout == 0:
			ms, ok := ParseInt(args[1])
			switch {
			case !ok:
				return ErrNotInteger
			case ms <= 0:
				return errFailoverTimeout
			}
			f.Timeout = min(time.Duration(ms), longestWait/time.Millisecond) * time.Millisecond
			args = args[2:]
		case word == "to" && len(args) > 2 && f.Host == "":
			port, ok := ParseInt(args[2])
			if !ok {
				return ErrNotInteger
			}
			f.Host, f.Port = string(args[1]), int(port)
			args = args[3:]
		case word == "force" && !f.Force:
			f.Force = true
			args = args[1:]
		default:
			return ErrSyntax
		}
	}
	r := c.Srv.Replication
	if r.IsReplica() {
		return errFailoverReplica
	}
	return replyOK(c, r.Failover(f))
}
