package command

import "github.com/basaltdb/basalt/engine"

var monitorCommands = []Spec{
	{Name: "monitor", Handler: monitor, Arity: 1, Flags: Admin | NoScript | Loading | Stale | Solo, Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Shows the commands of all clients of the namespace as they run; to an administrator, those of all clients."},
}

func init() { register(monitorCommands...) }

var errMonitorInside = engine.NewError("ERR", "MONITOR isn't allowed for DENY BLOCKING client")

func monitor(c *Ctx) error {
	if c.NoBlock {
		return errMonitorInside
	}
	c.Sess.Control.Monitor()
	c.Out.OK()
	return nil
}
