package command

var monitorCommands = []Spec{
	{Name: "monitor", Handler: monitor, Arity: 1, Flags: Admin | NoScript | Loading | Stale | NoMulti | Solo, Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Shows the commands of all clients of the namespace as they run; in the default namespace, those of all clients."},
}

func init() { register(monitorCommands...) }

func monitor(c *Ctx) error {
	c.Sess.Control.Monitor()
	c.Out.OK()
	return nil
}
