// Package cluster puts topologies of the cluster into force on one node, and keeps them on disk. There is no gossip, as
// in Kvrocks: a controller (Apache kvrocks-controller, or an administrator) sends each node the whole topology by
// CLUSTERX SETNODES, and single slots by CLUSTERX SETSLOT.
//
// A [topology.Topology] is an immutable value. A [Map] holds the current one behind an atomic pointer. A change makes a
// new value from the old one and swaps the pointer, so a command never waits for a change. [topology.Topology.Route]
// routes a command: it is a pure function of the topology, the keys and the state of the connection.
//
// # When a change takes effect
//
// A session routes a command before it takes the locks of the keys, and compares the pointer when it has them. If the
// pointer has changed, it routes again. A change that commands must not overtake (a slot is closed for writes; a slot
// that has moved is deleted) swaps the pointer and then waits until all locks held at that time are released
// ([Options.Barrier]). [Map.Forbid] and [Map.Migrated] do so before they return.
//
// # What slot migration uses
//
// The source of a migration:
//
//	t := m.Topology()         // t.Self, t.Node(id), t.Owner(slot), t.Has(slot)
//	m.Leaving(r, node)        // from now on the node may have the range, even if this process dies
//	m.Forbid(r)               // writes to the range get TRYAGAIN; when it returns, no such write is running
//	m.Allow(r)                // undoes Forbid; another Forbid may follow
//	m.Stays(r)                // undoes Leaving and Forbid after a failure
//	m.Migrated(r, node)       // all commands get MOVED to the node until the controller names the new owner
//
// The destination:
//
//	m.Importing(r)            // commands of the migrator (Session.Importing) and after ASKING run
//	m.Arrived(r)              // the range is here; commands get TRYAGAIN until the source redirects clients
//	m.Confirmed(r)            // the source does: all commands run until the controller makes this node the owner
//	m.Imported(r)             // Arrived and Confirmed at once
//	m.ImportEnded(r)          // undoes Importing after a failure
//	m.Revoked(r)              // undoes Imported, if the source has not received the reply
//
// A mark holds until the slot gets another owner, or until SETNODES FORCE. The marks Leaving, Migrated, Arrived and
// Imported survive the process: they are stored in a file beside nodes.conf, and in the database, from where replicas
// learn them. After a start, and in a replica that has become a master, a slot that was leaving is doubtful
// ([topology.Topology.Doubt]) until the destination was asked, and a slot that was imported counts as arrived
// ([topology.Topology.Arrival]). The commands of both get TRYAGAIN. The keys of migrated slots are deleted by
// [Options.DeleteSlots] when the slots get another owner.
//
// Package migration implements [Migrator], which [Map.SetMigrator] takes. The Map passes CLUSTERX MIGRATE and CLUSTER
// IMPORT on to it after checks against the topology, and asks it for [topology.Jobs], which CLUSTER INFO and CLUSTER
// NODES show.
//
// Sources of the formats and of the order of the rules: Kvrocks 2.10's src/cluster/cluster.cc and
// src/commands/cmd_cluster.cc.
package cluster
