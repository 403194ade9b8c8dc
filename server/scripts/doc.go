// Package scripts keeps the scripts and the function libraries of a database, as a transaction sees them: what a
// transaction changes of them is its own until it is committed. It compiles them and runs them by package lua; it knows
// neither connections nor the commands that scripts call.
package scripts
