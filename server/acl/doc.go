// Package acl is the definition of users as in Redis 7.2 (ACL SETUSER): which commands, keys and channels a user may
// access. It is pure: who the users of a server are is in package accounts.
//
// # Users
//
// A [User] is an immutable snapshot of a user's definition; a change creates a new one. For an unrestricted user
// [User.Unrestricted] is the only check.
//
// Command permissions are compiled to a bitmap by command ID, see [Table]. [User.Check] does not allocate.
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
