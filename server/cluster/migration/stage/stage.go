// Package stage names how far a migration is, on either side, so that tests can stop it there.
package stage

// Step is called before each step of each migration of this process, on either side: tests that kill processes stop
// them there.
var Step = func(Stage) {}

// Stage is how far a migration is.
type Stage string

// The stages.
const (
	Start     Stage = "start"
	Snapshot  Stage = "snapshot"
	Log       Stage = "log"
	Forbidden Stage = "forbidden"
	Rest      Stage = "rest"
	Success   Stage = "success"
	Moved     Stage = "moved"
	Done      Stage = "done"
	Failed    Stage = "failed"
)

// The stages of the destination.
const (
	Importing    Stage = "importing"     // before what is there of the slots is deleted
	ImportBegun  Stage = "import begun"  // before the answer to CLUSTER IMPORT range 0
	FilesBegun   Stage = "files begun"   // before the answer to _ingest BEGIN
	FilesCame    Stage = "files came"    // before the answer to each _ingest RECORDS: a table file is being written
	FilesAll     Stage = "files all"     // before the table files are ingested
	Ingested     Stage = "ingested"      // before the directory of the table files is removed
	Imported     Stage = "imported"      // before it is kept that the slots are there
	ImportedKept Stage = "imported kept" // before the mark of the import is removed
	ImportEnded  Stage = "import ended"  // before the answer to CLUSTER IMPORT range 1
	ImportVoid   Stage = "import void"   // before what came is deleted
)
