package command

import "github.com/basaltdb/basalt/engine"

var monitorCommands = []Spec{
	{Name: "monitor", Handler: monitor, Arity: 1, Flags: Admin | NoScript | Loading | Stale | Solo},
}

// ErrMonitoring: a client that has sent MONITOR is a replica to Redis.
var ErrMonitoring = engine.NewError("ERR", "Replica can't interact with the keyspace")

// monitor leaves the second MONITOR of a client without a reply, as Redis does.
func monitor(c *Ctx) error {
	if c.NoBlock {
		return errorf("MONITOR isn't allowed for DENY BLOCKING client")
	}
	if c.Sess.Control.Monitor() {
		c.Out.OK()
	}
	return nil
}
