package command

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/geo"
	"github.com/basaltdb/basalt/engine/keys"
)

// geoForm is what the name of a search command says.
type geoForm uint8

const (
	formPosition geoForm = iota // GEORADIUS: position, radius and unit, then options
	formMember                  // GEORADIUSBYMEMBER: member, radius and unit, then options
	formSearch                  // GEOSEARCH: everything is an option
	formStore                   // GEOSEARCHSTORE: the same behind the destination
)

// geoSearch is a search as it is parsed.
type geoSearch struct {
	options
	c      *Ctx
	form   geoForm
	source []byte
	exists bool // the source does
	q      geo.Query

	fromMember, fromPosition bool
	byRadius, byBox          bool
	withDistance             bool
	withHash                 bool
	withPosition             bool

	store      []byte // where the result goes, nil = to the client
	byDistance bool   // with distances as scores
}

func geoSearchForm(form geoForm) Handler {
	return func(c *Ctx) error {
		s := geoSearch{c: c, form: form, source: c.Args[1]}
		if form == formStore {
			s.store, s.source = c.Args[1], c.Args[2]
		}
		return s.run()
	}
}

// run checks in the order of Redis: the type of the source first, the existence of the source when all arguments have
// been read.
func (s *geoSearch) run() error {
	c := s.c
	rec, err := c.Tx.Load(s.source, cf.TypeZSet)
	if err != nil {
		return err
	}
	s.exists = rec.Exists
	s.parseMiddle()
	for s.more() {
		s.parseOption()
	}
	if err := s.checkTogether(); err != nil {
		return err
	}
	switch {
	case s.store == nil:
		return s.reply()
	case !s.exists:
		_, err := keys.Del(c.Tx, s.store)
		return replyInt(c, 0, err)
	}
	n, err := geo.Store(c.Tx, s.store, s.source, &s.q, s.byDistance)
	return replyInt(c, n, err)
}

// parseMiddle reads the arguments that have fixed places, and leaves the options.
func (s *geoSearch) parseMiddle() {
	s.args = s.c.Args[2:]
	switch {
	case s.form == formSearch:
	case s.form == formStore:
		s.next()
	case s.form == formPosition:
		s.position()
		s.radius()
	case !s.exists: // then Redis reads neither member nor radius
		s.args = s.args[3:]
	default:
		s.member(s.next())
		s.radius()
	}
}

// position takes a longitude and a latitude.
func (s *geoSearch) position() {
	lon, lat, err := geoPosition(s.args)
	s.fail(err)
	s.q.Shape.Lon, s.q.Shape.Lat = lon, lat
	s.args = s.args[2:]
}

func (s *geoSearch) member(name []byte) {
	lon, lat, found, err := geo.PositionOf(s.c.Tx, s.source, name)
	s.fail(err)
	s.check(found, errGeoMember)
	s.q.Shape.Lon, s.q.Shape.Lat = lon, lat
}

// length takes a number.
func (s *geoSearch) length(bad error) float64 {
	f, ok := ParseFloat(s.next())
	s.check(ok, bad)
	return f
}

// unit takes the unit of lengths.
func (s *geoSearch) unit() {
	unit, err := geoUnit(s.next())
	s.fail(err)
	s.q.Shape.Unit = unit
}

// radius takes a radius and its unit.
func (s *geoSearch) radius() {
	s.q.Shape.Radius = s.length(errGeoRadius)
	s.check(s.q.Shape.Radius >= 0, errGeoCircle)
	s.unit()
}

// box takes width, height and unit.
func (s *geoSearch) box() {
	shape := &s.q.Shape
	shape.Box, shape.Width, shape.Height = true, s.length(errGeoWidth), s.length(errGeoHeight)
	s.check(shape.Width >= 0 && shape.Height >= 0, errGeoBox)
	s.unit()
}

// parseOption takes one option.
func (s *geoSearch) parseOption() {
	search := s.form == formSearch || s.form == formStore
	switch {
	case s.flag("WITHDIST", &s.withDistance):
	case s.flag("WITHHASH", &s.withHash):
	case s.flag("WITHCOORD", &s.withPosition):
	case s.flag("ANY", &s.q.Any):
	case s.is("ASC"):
		s.q.Order = geo.Nearest
	case s.is("DESC"):
		s.q.Order = geo.Furthest
	case s.has("COUNT", 1):
		n, ok := ParseInt(s.next())
		s.check(ok, ErrNotInteger)
		s.check(n > 0, errGeoCount)
		s.q.Count = int(n)
	case s.mayStore() && s.value("STORE", &s.store):
		s.byDistance = false
	case s.mayStore() && s.value("STOREDIST", &s.store):
		s.byDistance = true
	case s.form == formStore && s.flag("STOREDIST", &s.byDistance):
	case search && !s.fromPosition && s.has("FROMMEMBER", 1):
		s.fromMember = true
		if name := s.next(); s.exists {
			s.member(name)
		}
	case search && !s.fromMember && s.has("FROMLONLAT", 2):
		s.fromPosition = true
		s.position()
	case search && !s.byBox && s.has("BYRADIUS", 2):
		s.byRadius = true
		s.radius()
	case search && !s.byRadius && s.has("BYBOX", 3):
		s.byBox = true
		s.box()
	default:
		s.err = ErrSyntax
	}
}

// mayStore reports whether STORE and STOREDIST name a key: in the forms of GEORADIUS that write.
func (s *geoSearch) mayStore() bool {
	return (s.form == formPosition || s.form == formMember) && s.c.Spec.Flags&Write != 0
}

// checkTogether reports missing options and options that exclude each other.
func (s *geoSearch) checkTogether() error {
	search := s.form == formSearch || s.form == formStore
	name := string(echoed(s.c.Args[0]))
	switch {
	case s.err != nil:
		return s.err
	case s.store != nil && (s.withDistance || s.withHash || s.withPosition):
		what := "STORE option in GEORADIUS"
		if s.form == formStore {
			what = "GEOSEARCHSTORE"
		}
		return engine.NewError("ERR", what+" is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
	case search && !s.fromMember && !s.fromPosition:
		return engine.NewError("ERR", "exactly one of FROMMEMBER or FROMLONLAT can be specified for "+name)
	case search && !s.byRadius && !s.byBox:
		return engine.NewError("ERR", "exactly one of BYRADIUS and BYBOX can be specified for "+name)
	case s.q.Any && s.q.Count == 0:
		return errGeoAny
	}
	return nil
}

// reply sends the members, each in an array with the requested fields.
func (s *geoSearch) reply() error {
	out := s.c.Out
	if !s.exists {
		out.Array(0)
		return nil
	}
	parts := 1
	for _, with := range []bool{s.withDistance, s.withHash, s.withPosition} {
		if with {
			parts++
		}
	}
	mark, n := out.Mark(), 0
	err := geo.Search(s.c.Tx, s.source, &s.q, func(f *geo.Found) {
		n++
		if parts > 1 {
			out.Array(parts)
		}
		out.Bulk(f.Member)
		if s.withDistance {
			writeDistance(out, f.Distance)
		}
		if s.withHash {
			out.Int(int64(f.Score))
		}
		if s.withPosition {
			writePosition(out, f.Lon, f.Lat)
		}
	})
	out.InsertArray(mark, n)
	return err
}
