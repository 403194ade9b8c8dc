package command

// MODULE: no modules exist, and clients that ask for modules (RedisInsight, redis-py's cluster) get an empty list.
var moduleCommands = []Spec{{Name: "module", Arity: -2, Sub: []Spec{
	{Name: "list", Handler: moduleList, Arity: 2, Flags: Admin | NoScript},
	{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
}}}

func moduleList(c *Ctx) error {
	c.Out.Array(0)
	return nil
}
