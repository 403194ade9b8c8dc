// Package cluster puts topologies of the cluster into force on one node, and keeps them on disk. There is no gossip, as
// in Kvrocks: a controller (Apache kvrocks-controller, or an administrator) sends each node the whole topology by
// CLUSTERX SETNODES, and single slots by CLUSTERX SETSLOT.
//
// A [topology.Topology] is one immutable value. A [Map] holds the present one behind an atomic pointer; a change makes
// a new value from the old one and exchanges the pointer, so a command never waits for a change.
// [topology.Topology.Route] decides about a command: a pure function of the topology, the keys and what the connection
// has asked for.
//
// # When a change has effect
//
// A session routes a command before it takes the locks of the keys, and compares the pointer when it has them: after a
// change it routes again. So a change that must not be overtaken by a command (a slot is closed for writes; a slot that
// has left is deleted) exchanges the pointer and then waits once for the locks of all who hold some
// ([Options.Barrier]). [Map.Forbid] and [Map.Migrated] do so before they return.
//
// # What slot migration uses
//
// The source of a migration:
//
//	t := m.Topology()         // t.Self, t.Node(id), t.Owner(slot), t.Serves(slot)
//	m.Leaving(r, node)        // from now on the node may have the range, whatever happens to this one
//	m.Forbid(r)               // writes of the range get TRYAGAIN; when it returns, none is under way
//	m.Allow(r)                // the end of Forbid, for a while
//	m.Stays(r)                // the end of both after a failure
//	m.Migrated(r, node)       // all commands get MOVED to the node until the controller tells the new owner
//
// The destination:
//
//	m.Importing(r)            // commands of the migrator (Session.Importing) and after ASKING run
//	m.Arrived(r)              // the range is here, and commands get TRYAGAIN until it is known that the source knows
//	m.Confirmed(r)            // it does: all commands run until the controller tells that the range is ours
//	m.Imported(r)             // both at once
//	m.ImportEnded(r)          // the end of Importing after a failure
//	m.Revoked(r)              // the end of Imported, if the source has not heard of it
//
// A mark holds until the slot has another owner, or SETNODES FORCE. Those of Leaving, Migrated, Arrived and Imported
// outlive the process: they lie beside nodes.conf, and in the database, whence replicas learn them. After a start,
// and in a replica that has become a master, a slot that was leaving is in doubt ([topology.Topology.Doubt]) until the
// destination was asked, and one that was imported has just arrived ([topology.Topology.Arrival]): its
// commands get TRYAGAIN.
// The keys of slots that were migrated are deleted when the slots have another owner, by [Options.DeleteSlots].
//
// The room of the migration implements [Migrator] and is given to [Map.SetMigrator]: CLUSTERX MIGRATE and CLUSTER
// IMPORT come from there, checked against the topology, and CLUSTER INFO and CLUSTER NODES ask it for [topology.Jobs].
//
// Sources of the formats and of the order of the rules: Kvrocks 2.10's src/cluster/cluster.cc and
// src/commands/cmd_cluster.cc.
package cluster
