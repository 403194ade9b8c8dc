// Package acl is access control: who may authenticate, and which commands, keys and channels a user may touch. It
// defines users as Redis 7.2 does (ACL SETUSER, aclfile) and knows neither connections nor replies.
//
// # Users
//
// A [User] is an immutable snapshot of what was said about a user; changing one makes another. The [Account] of a
// name points at the present snapshot. A connection keeps the Account that it has authenticated as, so that a
// change has effect on its next command: loading the snapshot is one atomic load, and [User.Unrestricted] is all
// that needs to be asked of a user who may do everything. The Account of a user that was deleted points at a
// snapshot that may run nothing, so that a connection that is about to be closed can do no harm.
//
// The permissions of commands are compiled to a bitmap by command ID, see [Table]. [User.Check] allocates nothing.
//
// # How users, the password of the server and namespaces combine
//
//   - The user default is who a connection is until it authenticates, if that user is on and nopass
//     ([Store.Anonymous]). The setting requirepass is the password of that user: setting it takes the other
//     passwords away, and emptying it makes the user nopass ([Store.SetRequirePass]).
//   - A user belongs to the default namespace and is an administrator: its rules alone say what it may do, and what
//     is for administrators is in the categories @admin and @dangerous. The rule namespace:<name>, which Redis does
//     not have, puts a user into a namespace; it is no administrator there. namespace: takes it back.
//   - A namespace has a token of its own. AUTH <token>, or AUTH default <token>, gives a connection the namespace,
//     without the rights of an administrator and without any restriction by rules: tokens are not users, and what is
//     done to the user default (off, say) does not touch them. They are called default where a name is needed.
//   - AUTH <user> <password> is for all other users. A user that is off cannot authenticate; connections that have
//     done so before keep working, as in Redis.
//
// # The text form
//
// A user is one line, the same in ACL LIST, in an aclfile and in a configuration file:
//
//	user <name> <rule> ...
//
// Rules are applied from left to right. [User.String] writes a form that gives the same permissions when it is read
// again, by [Table.Parse] or by Redis (if namespace: does not occur), whatever bytes the patterns have.
package acl
