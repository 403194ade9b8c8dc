package accounts_test

import (
	"fmt"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/acl/acltest"
)

func Example() {
	store := accounts.NewStore(acltest.Table(), accounts.Options{})
	if err := store.SetUser("worker", "on", ">secret", "~jobs:*", "+@list", "+get", "-lset"); err != nil {
		fmt.Println(err)
		return
	}
	who, ok := store.Authenticate("worker", []byte("secret"))
	fmt.Println(ok, who.Admin)

	user := who.Account.User()
	pop, args := acltest.ID("lpop"), acltest.Args("LPOP", "mail:1")
	keys := []acl.Key{{Arg: 1, Read: true, Write: true}}
	if denied, at := user.Check(pop, args, keys, acl.Channels{}); denied != acl.Allowed {
		fmt.Println(denied.Text(user.Name(), "lpop", string(args[at])))
	}
	// Output:
	// true true
	// User worker has no permissions to access the 'mail:1' key
}
