// Package geo stores positions on the globe in sorted sets, on an [engine.Tx]: the operations of GEOADD, GEOSEARCH and
// similar commands, without the server and its protocol.
//
// It has no layout of its own. A position is a member of a sorted set (package zset); its score is the number of its
// cell. The map is halved 26 times in each direction, and the bits of column and row are interleaved, so that the
// positions in a larger cell have a contiguous range of scores. A search reads the ranges of at most nine cells that
// cover its area, and computes the distance of each member in them.
//
// Scores, cells and distances are computed step by step as Redis computes them, so that the same calls give the same
// numbers, to the last bit, in the same order.
//
// Longitudes and latitudes are in degrees, distances in metres unless a unit is named. Functions that write need the
// key's lock for writing, the others for reading. A key of another type gives [engine.ErrWrongType].
package geo

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/zset"
)

// Place is a member with its position.
type Place struct {
	Member   []byte
	Lon, Lat float64
}

// Add sets the positions of members, which must be on the map (see [OnMap]). The flags are NX and XX of package zset.
// It returns how many members are new and how many existing members have moved.
func Add(tx *engine.Tx, key []byte, f zset.Flags, places []Place) (added, changed int, err error) {
	entries := make([]zset.Entry, 0, len(places))
	for i := range places {
		p := &places[i]
		entries = append(entries, zset.Entry{Member: p.Member, Score: Score(p.Lon, p.Lat)})
	}
	added, changed, err = zset.Add(tx, key, f, entries)
	return added, changed, err
}

// Scores calls f with the score of each member in turn. [Position] and [AppendHash] decode a score.
func Scores(tx *engine.Tx, key []byte, members [][]byte, f func(score float64, found bool)) error {
	return zset.Scores(tx, key, members, f)
}

// PositionOf returns the position of a member.
func PositionOf(tx *engine.Tx, key, member []byte) (lon, lat float64, found bool, err error) {
	score, found, err := zset.Score(tx, key, member)
	if err != nil || !found {
		return 0, 0, false, err
	}
	lon, lat = Position(score)
	return lon, lat, true, nil
}

// DistanceOf returns the distance between two members; found is false when one of them is missing.
func DistanceOf(tx *engine.Tx, key, a, b []byte) (metres float64, found bool, err error) {
	var scores [2]float64
	n := 0
	err = Scores(tx, key, [][]byte{a, b}, func(score float64, found bool) {
		if found {
			scores[n] = score
			n++
		}
	})
	if err != nil || n < len(scores) {
		return 0, false, err
	}
	lon1, lat1 := Position(scores[0])
	lon2, lat2 := Position(scores[1])
	return Distance(lon1, lat1, lon2, lat2), true, nil
}
