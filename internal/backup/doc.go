// Package backup stores backups of databases in a repository, which is a directory or an S3 bucket, and restores them.
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
// Objects are immutable, except positions and locks, and get their names only when they are complete. The object name
// of a table file contains RocksDB's unique id from the MANIFEST, followed by the sequence number of its records if all
// have the same one. So a file that an earlier or interrupted backup has stored is found without reading the source.
//
// # Consistency
//
// A backup is a checkpoint: the state of the database at one write. A running server sends it by the protocol of full
// synchronisation (package proto), so a password is all that is needed. The server may send a checkpoint that it made
// earlier for a replica; then the writes from there to the beginning of the backup are fetched too, and stored as a
// segment.
//
// # Timelines
//
// [Follow] stores every write within seconds. A timeline is a sequence of writes without gaps; backups made by Follow
// name theirs. Restoring a time takes such a backup and applies the writes up to that time. If the server has lost the
// next writes, or has another history, a new timeline begins with a new backup.
package backup
