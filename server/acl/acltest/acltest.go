// Package acltest has a small table of commands for tests.
package acltest

import (
	"strings"
	"sync"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/glob"
)

// commands are names and categories, a command a line.
const commands = `
acl admin
acl|list admin slow dangerous
auth connection fast
client slow
client|id connection slow
client|list admin connection dangerous slow
config slow
config|get admin dangerous slow
config|set admin dangerous slow
del keyspace write slow
echo connection fast
get read string fast
getrange read string slow
incr write string fast
json.get json read slow
json.set json write slow
lpop write list fast
lset write list slow
lpush write list fast
mget read string fast
ping connection fast
rename keyspace write slow
select connection fast
set write string slow
sort write set sortedset list slow dangerous
type keyspace read fast`

var ids = map[string]acl.ID{}

// Table returns the table. Everybody may call auth.
var Table = sync.OnceValue(func() *acl.Table {
	var list []acl.Command
	for line := range strings.Lines(commands[1:]) {
		words := strings.Fields(line)
		ids[words[0]] = acl.ID(len(list))
		list = append(list, acl.Command{Name: words[0], Categories: words[1:], NoAuth: words[0] == "auth"})
	}
	t, err := acl.NewTable(list, func(pattern []byte) acl.Matcher { return glob.Compile(pattern) })
	if err != nil {
		panic(err)
	}
	return t
})

// ID returns the ID of a command of the table.
func ID(name string) acl.ID {
	Table()
	id, ok := ids[name]
	if !ok {
		panic("no command " + name)
	}
	return id
}

// Args returns the arguments of a command.
func Args(words ...string) (args [][]byte) {
	for _, w := range words {
		args = append(args, []byte(w))
	}
	return args
}
