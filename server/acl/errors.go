package acl

import "strings"

// replyError is an error whose text is a reply that clients know.
type replyError string

func (e replyError) Error() string { return string(e) }

// The reasons for refusing a rule, with Redis's texts.
var (
	errSyntax       error = replyError("Syntax error")
	errUnknown      error = replyError("Unknown command or category name in ACL")
	errAfterAllKeys error = replyError("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and " +
		"does not have any effect. " +
		"Try 'resetkeys' to start with an empty list of patterns")
	errAfterAllChannels error = replyError("Adding a pattern after the * pattern (or the 'allchannels' flag) is not " +
		"valid and does not have any effect. " +
		"Try 'resetchannels' to start with an empty list of channels")
	errNoPassword error = replyError("The password you are trying to remove from the user does not exist")
	errHash       error = replyError("The password hash must be exactly 64 characters and contain only lowercase " +
		"hexadecimal characters")
	errFirstArg error = replyError("Allowing first-arg of a subcommand is not supported")
)

// ErrUserName: a name that no user may have, with Redis's text.
var ErrUserName error = replyError("Usernames can't contain spaces or null characters")

// RuleError is a refused rule. Its text is that of ACL SETUSER.
type RuleError struct {
	Rule string // as given; a selector from several arguments is joined by blanks
	Err  error
}

func (e *RuleError) Error() string {
	return "Error in ACL SETUSER modifier '" + cString(e.Rule) + "': " + e.Err.Error()
}

func (e *RuleError) Unwrap() error { return e.Err }

// UnmatchedError is a selector without closing parenthesis.
type UnmatchedError struct {
	Rule string // the argument with the opening parenthesis
}

func (e *UnmatchedError) Error() string {
	return "Unmatched parenthesis in acl selector starting at '" + cString(e.Rule) + "'."
}

// cString truncates a text at its first zero byte, as Redis does when it repeats its input.
func cString(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}
