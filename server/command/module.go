package command

// MODULE: there are none, and clients that look for some (RedisInsight, redis-py's cluster) are told so.
var moduleCommand = Spec{
	Name: "module", Arity: -2, Group: "server", Since: "4.0.0", Complexity: "Depends on the subcommand.",
	Summary: "Commands about modules, of which there are none.",
	Sub: []Spec{
		{Name: "list", Handler: moduleList, Arity: 2, Flags: Admin | NoScript, Group: "server", Since: "4.0.0",
			Complexity: "O(1)",
			Summary:    "Returns an empty list."},
		{Name: "help", Handler: moduleHelp, Arity: 2, Flags: Loading | Stale, Group: "server", Since: "5.0.0",
			Complexity: "O(1)",
			Summary:    "Returns helpful text about the different subcommands."},
	},
}

func init() { register(moduleCommand) }

func moduleList(c *Ctx) error {
	c.Out.Array(0)
	return nil
}

func moduleHelp(c *Ctx) error {
	writeHelp(c, "MODULE", "LIST", "    An empty list: there are no modules.")
	return nil
}
