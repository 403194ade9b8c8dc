package accounts_test

import (
	"fmt"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/command"
)

func Example() {
	store := accounts.NewStore(command.ACLTable(), accounts.Options{})
	if err := store.SetUser("worker", "on", ">secret", "~jobs:*", "+@list", "+get", "-lset"); err != nil {
		fmt.Println(err)
		return
	}
	who, ok := store.Authenticate("worker", []byte("secret"))
	fmt.Println(ok, who.Admin)

	args := [][]byte{[]byte("LPOP"), []byte("mail:1")}
	spec, err := command.Resolve(args)
	if err != nil {
		fmt.Println(err)
		return
	}
	user := who.Account.User()
	keys := spec.ACLKeys(nil, spec.AppendKeys(nil, args), args)
	if denied, at := user.Check(acl.ID(spec.ID), args, keys, spec.ACLChannels(args)); denied != acl.Allowed {
		fmt.Println(denied.Text(user.Name(), spec.FullName(), string(args[at])))
	}
	// Output:
	// true true
	// User worker has no permissions to access the 'mail:1' key
}
