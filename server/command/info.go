package command

import "strings"

func init() {
	register(Spec{Name: "info", Handler: info, Arity: -1, Flags: Loading | Stale | Solo, Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Categories: "@dangerous", Summary: "Returns facts and statistics of the server."})
}

// info takes any number of sections; none and default mean all but the long one of percentiles, all and everything mean
// all.
func info(c *Ctx) error {
	wanted := map[string]bool{}
	all, most := false, len(c.Args) == 1
	for _, a := range c.Args[1:] {
		switch name := strings.ToLower(string(a)); name {
		case "all", "everything":
			all = true
		case "default":
			most = true
		default:
			wanted[name] = true
		}
	}
	want := func(section string) bool { return all || wanted[section] || most && section != "latencystats" }
	c.Out.Verbatim("txt", c.Srv.Info.Text(want, c.Sess.Namespace))
	return nil
}
