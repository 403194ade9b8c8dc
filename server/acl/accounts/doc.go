// Package accounts holds the users of a server: who may authenticate and as whom, the aclfile, and the log of what was
// denied. It knows neither connections nor replies.
//
// The [Account] of a name points at the current snapshot of the user. A connection keeps the Account as which it has
// authenticated, so a change takes effect at its next command: loading the snapshot is one atomic load. The Account of
// a deleted user points at a snapshot without permissions, so that a connection can do no harm before it is closed.
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
package accounts
