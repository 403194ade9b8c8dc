// Package ingeststep names the steps of bringing table files into a running database, so that tests can kill the
// process there.
package ingeststep

// Reached is called at each step in this process.
var Reached = func(Step) {}

// Step is a step.
type Step string

// The steps of the engine, while all locks are held.
const (
	Locked  Step = "ingest locked"  // before the memtables are flushed
	Flushed Step = "ingest flushed" // before the MANIFEST gets the files
	Moved   Step = "ingest moved"   // the database has the files
)

// The steps of what clients send.
const (
	Begun     Step = "ingest begun"     // before the answer to _ingest BEGIN
	Records   Step = "ingest records"   // before the answer to _ingest RECORDS: a table file is being written
	All       Step = "ingest all"       // before all records are brought into the database
	Paused    Step = "ingest paused"    // clients are paused: nothing was brought into the database
	Committed Step = "ingest committed" // before the answer to _ingest END
)
