package accounts_test

import (
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/command"
)

const hashOfP = "#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"

func table() *acl.Table { return command.ACLTable() }

func args(words ...string) (out [][]byte) {
	for _, w := range words {
		out = append(out, []byte(w))
	}
	return out
}

func id(name string) acl.ID {
	for i := range command.NumSpecs() {
		if command.ByID(i).FullName() == name {
			return acl.ID(i)
		}
	}
	panic("no command " + name)
}
