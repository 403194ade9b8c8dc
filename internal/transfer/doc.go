// Package transfer imports data into servers and data directories and exports it: files of Redis and Valkey (RDB and
// append-only files), streams of commands, and JSON lines. Input is not trusted: no length or count is assumed to be
// right, and no value needs more memory than a part of it.
package transfer
