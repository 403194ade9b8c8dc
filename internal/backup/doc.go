// Package backup keeps backups of databases in a repository, a directory or a bucket of S3, and restores them.
//
// # Repository
//
//	basalt-backups.json                 says that this is one
//	files/<2>/<sha256>-<size>[-<id>]    a file of a database; <2> is the beginning of the name
//	backups/<id>.json                   a backup: which files, written last
//	log/<timeline>/<segment>            write batches in their order, see segment.go
//	log/<timeline>/position.json        up to when the log is complete
//	locks/<kind>-<id>.json              who works on the repository, see lock.go
//
// An object never changes, apart from positions and locks, and appears under its name when it is whole. A table file of
// RocksDB has the unique id that RocksDB's MANIFEST tells in its name. So a file that an earlier backup, or one that was
// cut, has stored already is found without reading it at its source.
//
// # Consistency
//
// A backup is a checkpoint: the state of the database at one write. From a running server it comes by the protocol of a
// full sync (package proto), so that a password is all that is needed. A server may answer with a checkpoint that it
// made earlier for a replica: then the writes from there up to the beginning of the backup are fetched too, and stored
// as a segment.
//
// # Timelines
//
// [Follow] stores every write, seconds after it was made. A timeline is a sequence of writes without a gap; backups
// that Follow makes tell theirs. Restoring to a time takes such a backup and applies the writes up to that time. When
// the server has lost the writes that come next, or has another history, a new timeline begins with a new backup.
package backup
