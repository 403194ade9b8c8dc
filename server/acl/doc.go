// Package acl is access control: who may authenticate, and which commands, keys and channels a user may access. Users
// are defined as in Redis 7.2 (ACL SETUSER, aclfile). The package knows neither connections nor replies.
//
// # Users
//
// A [User] is an immutable snapshot of a user's definition; a change creates a new one. The [Account] of a name points
// at the current snapshot. A connection keeps the Account as which it has authenticated, so a change takes effect at
// its next command: loading the snapshot is one atomic load, and for an unrestricted user [User.Unrestricted] is the
// only check. The Account of a deleted user points at a snapshot without permissions, so that a connection can do no
// harm before it is closed.
//
// Command permissions are compiled to a bitmap by command ID, see [Table]. [User.Check] does not allocate.
//
// # How users, the password of the server and namespaces combine
//
//   - A connection has the identity of the user default until it authenticates, if that user is on and nopass
//     ([Store.Anonymous]). The setting requirepass is the password of that user: setting it removes the other
//     passwords, and emptying it makes the user nopass ([Store.SetRequirePass]).
//   - A user belongs to the default namespace and is an administrator: only its rules restrict it; what is for
//     administrators is in the categories @admin and @dangerous. The rule namespace:<name>, which Redis does
//     not have, puts a user into a namespace, where it is not an administrator. namespace: undoes that.
//   - A namespace has its own token. AUTH <token>, or AUTH default <token>, gives a connection access to the
//     namespace, without administrator rights and without restrictions by rules: tokens are not users, and changes
//     of the user default (such as off) do not affect them. Where a name is needed, it is default.
//   - AUTH <user> <password> is for all other users. A user that is off cannot authenticate; its connections that
//     have authenticated before continue to work, as in Redis.
//
// # The text form
//
// A user is one line, the same in ACL LIST, in an aclfile and in a configuration file:
//
//	user <name> <rule> ...
//
// Rules are applied from left to right. [User.String] returns a form that gives the same permissions when [Table.Parse]
// or Redis reads it (Redis only if namespace: does not occur), whatever bytes the patterns contain.
package acl
