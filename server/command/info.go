package command

import (
	"slices"
	"strings"
)

var infoCommands = []Spec{{Name: "info", Handler: info, Arity: -1, Flags: Loading | Stale | Solo}}

// info takes any number of sections; no section and default mean all but the long section of percentiles, all and
// everything mean all. FORMAT TXT or FORMAT JSON may stand anywhere among them, as in Kvrocks.
func info(c *Ctx) error {
	wanted := map[string]bool{}
	asJSON := false
	sections := c.Args[1:]
	if i := slices.IndexFunc(sections, func(a []byte) bool { return EqualFold(a, "FORMAT") }); i >= 0 {
		if i+1 == len(sections) {
			return ErrSyntax
		}
		asJSON = EqualFold(sections[i+1], "JSON")
		if !asJSON && !EqualFold(sections[i+1], "TXT") {
			return ErrSyntax
		}
		sections = append(slices.Clone(sections[:i]), sections[i+2:]...)
	}
	all, most := false, len(sections) == 0
	for _, a := range sections {
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
	if asJSON {
		c.Out.BulkString(c.Srv.Info.JSON(want, c.Sess.Namespace))
		return nil
	}
	return replyVerbatim(c, c.Srv.Info.Text(want, c.Sess.Namespace), nil)
}
