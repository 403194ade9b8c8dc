package accounts

// replyError is an error whose text is a reply that clients know.
type replyError string

func (e replyError) Error() string { return string(e) }

// Errors of the methods of [Store], with Redis's texts where Redis has them.
var (
	ErrDefaultUser error = replyError("The 'default' user cannot be removed")
	ErrNoFile      error = replyError("This Redis instance is not configured to use an ACL file. You may want to " +
		"specify users via the ACL SETUSER command " +
		"and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the " +
		"Redis configuration.")
	ErrSave error = replyError("There was an error trying to save the ACLs. Please check the server logs for more " +
		"information")
)
