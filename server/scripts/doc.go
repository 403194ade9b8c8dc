// Package scripts stores the scripts and the function libraries of a database. A transaction sees its own changes of
// them; others see the changes after the commit. Package scripts compiles and runs scripts with package lua; it knows
// neither connections nor the commands that scripts call.
package scripts
