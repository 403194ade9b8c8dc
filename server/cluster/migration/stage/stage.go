// Package stage names the steps of a migration on both sides, so that tests can stop it there.
package stage

// Step is called before each step of each migration in this process. Tests that kill processes stop migrations there.
var Step = func(Stage) {}

// Stage is a step of a migration.
type Stage string

// The steps of the source.
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

// The steps of the destination.
const (
	Importing    Stage = "importing"     // before the keys of the slots are deleted
	ImportBegun  Stage = "import begun"  // before the answer to CLUSTER IMPORT range 0
	FilesBegun   Stage = "files begun"   // before the answer to _ingest BEGIN
	FilesCame    Stage = "files came"    // before the answer to each _ingest RECORDS: a table file is being written
	FilesAll     Stage = "files all"     // before the table files are ingested
	Ingested     Stage = "ingested"      // before the directory of table files is removed
	Imported     Stage = "imported"      // before the import is recorded
	ImportedKept Stage = "imported kept" // before the mark of the import is removed
	ImportEnded  Stage = "import ended"  // before the answer to CLUSTER IMPORT range 1
	ImportVoid   Stage = "import void"   // before the imported keys are deleted
)
