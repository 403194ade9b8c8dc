package command

// MODULE: there are none, and clients that look for some (RedisInsight, redis-py's cluster) are told so.
var moduleCommand = Spec{Name: "module", Arity: -2, Sub: []Spec{
	{Name: "list", Handler: moduleList, Arity: 2, Flags: Admin | NoScript},
	{Name: "help", Handler: moduleHelp, Arity: 2, Flags: Loading | Stale},
}}

func init() { register(moduleCommand) }

func moduleList(c *Ctx) error {
	c.Out.Array(0)
	return nil
}

func moduleHelp(c *Ctx) error {
	writeHelp(c, "MODULE", "LIST", "    An empty list: there are no modules.")
	return nil
}
