package command

import (
	"slices"
	"strings"

	"github.com/basaltdb/basalt/server/glob"
)

const configFlags = Admin | NoScript | Loading | Stale | Solo | AdminOnly

var configCommands = []Spec{{Name: "config", Arity: -2, Sub: []Spec{
	{Name: "get", Handler: configGet, Arity: -3, Flags: configFlags},
	{Name: "set", Handler: configSet, Arity: -4, Flags: configFlags},
	{Name: "rewrite", Handler: configRewrite, Arity: 2, Flags: configFlags},
	{Name: "resetstat", Handler: configResetStat, Arity: 2, Flags: configFlags},
	{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
}}}

// configGet returns each setting once, however many patterns it matches. As in Redis, a setting requested by its name
// is returned under the name as it was first written.
func configGet(c *Ctx) error {
	var patterns []*glob.Pattern
	asked := map[string]string{}
	for _, a := range c.Args[2:] {
		name := strings.ToLower(string(a))
		patterns = append(patterns, glob.Compile([]byte(name)))
		if _, ok := asked[name]; !ok {
			asked[name] = string(a)
		}
	}
	found := c.Srv.Settings.Match(func(name string) bool {
		return slices.ContainsFunc(patterns, func(p *glob.Pattern) bool { return p.Match([]byte(name)) })
	})
	c.Out.Map(len(found))
	for _, s := range found {
		name := s.Name
		if as, ok := asked[name]; ok {
			name = as
		}
		stringField(c.Out, name, s.Value)
	}
	return nil
}

func configSet(c *Ctx) error {
	if len(c.Args)%2 != 0 {
		return ErrSyntax
	}
	var changes []Setting
	for i := 2; i < len(c.Args); i += 2 {
		changes = append(changes, Setting{Name: string(c.Args[i]), Value: string(c.Args[i+1])})
	}
	return replyOK(c, c.Srv.Settings.Set(c.Sess, changes))
}

func configRewrite(c *Ctx) error {
	return replyOK(c, c.Srv.Settings.Rewrite())
}

func configResetStat(c *Ctx) error {
	c.Srv.Stats.Reset()
	return replyOK(c, nil)
}
