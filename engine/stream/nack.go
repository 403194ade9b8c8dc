package stream

import (
	"math"

	"github.com/basaltdb/basalt/cf"
)

// Nobody is the name of the consumer of entries that are nobody's, see [cf.StreamNobody].
const Nobody = cf.StreamNobody

func isNobody(name []byte) bool { return string(name) == Nobody }

// maxDeliveries is the number of deliveries of an entry that must not be delivered again.
const maxDeliveries = math.MaxInt64

// The numbers of deliveries that [Group.Nack] gives to an entry with n deliveries.
var (
	Silent = func(n uint64) uint64 { return less(n, 1) }    // the last delivery does not count
	Fail   = func(n uint64) uint64 { return n }             // the last delivery counts
	Fatal  = func(n uint64) uint64 { return maxDeliveries } // the entry must not be delivered again
)

// Nack makes pending entries nobody's: their consumers give them back. They can be claimed at once, in the order in
// which they were given back. deliveries returns the new number of deliveries. With force, entries that are not pending
// become so, with 0 deliveries before, if they exist. Nack returns how many ids were given back; one that comes twice
// counts twice.
func (g *Group) Nack(ids []ID, deliveries func(n uint64) uint64, force bool) (nacked uint64, err error) {
	tx := g.s.tx
	keys := tx.Keys()
	for _, id := range ids {
		keys.Add(g.pendingKey(id))
	}
	if force {
		for _, id := range ids {
			keys.Add(g.s.entryKey(id))
		}
	}
	values, err := tx.MultiGet(cf.Stream, keys)
	if err != nil {
		return 0, err
	}
	before := g.value
	owners := owners{g: g}
	nobody, err := owners.of([]byte(Nobody))
	if err != nil {
		return 0, err
	}
	if nobody == nil {
		nobody = &consumer{name: []byte(Nobody)}
		owners.add(nobody)
		g.value.Consumers++
	}
	changes := make([]claimed, 0, len(ids))
	at := make(map[ID]int, len(ids))
	for i, id := range ids {
		j, again := at[id]
		if !again {
			p := claimed{id: id}
			switch {
			case values[i] != nil:
				if p.value, err = g.decodePending(id, values[i]); err != nil {
					return 0, err
				}
				if err := owners.lose(p.value.Consumer); err != nil {
					return 0, err
				}
			case force && values[len(ids)+i] != nil:
				g.value.Pending++
			default:
				continue
			}
			nobody.value.Pending++
			j = len(changes)
			at[id] = j
			changes = append(changes, p)
		}
		nacked++
		nobody.value.LastAttempted++
		v := &changes[j].value
		*v = cf.StreamPendingValue{DeliveryTime: nobody.value.LastAttempted, DeliveryCount: deliveries(v.DeliveryCount),
			Consumer: nobody.name}
	}
	if nacked == 0 {
		return 0, nil
	}
	tx.LogData(cf.LogStream)
	owners.save(nobody)
	for i := range changes {
		p := &changes[i]
		g.putPending(p.id, &p.value)
		g.added(p.id)
		g.aged(p.id, p.value.DeliveryTime)
	}
	g.saveConsumer(nobody)
	if g.value != before {
		g.save()
	}
	return nacked, nil
}
