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
	options, err := s.parseMiddle()
	for err == nil && len(options) > 0 {
		options, err = s.parseOption(options)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
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

// parseMiddle reads the arguments that have fixed places, and returns the options.
func (s *geoSearch) parseMiddle() (options [][]byte, err error) {
	args := s.c.Args
	switch s.form {
	case formSearch:
		return args[2:], nil
	case formStore:
		return args[3:], nil
	case formPosition:
		if err := s.position(args[2:]); err != nil {
			return nil, err
		}
		return args[6:], s.radius(args[4:])
	}
	if !s.exists { // then Redis reads neither member nor radius
		return args[5:], nil
	}
	if err := s.member(args[2]); err != nil {
		return nil, err
	}
	return args[5:], s.radius(args[3:])
}

func (s *geoSearch) position(args [][]byte) (err error) {
	s.q.Shape.Lon, s.q.Shape.Lat, err = geoPosition(args)
	return err
}

func (s *geoSearch) member(name []byte) error {
	lon, lat, found, err := geo.PositionOf(s.c.Tx, s.source, name)
	if err != nil {
		return err
	}
	if !found {
		return errGeoMember
	}
	s.q.Shape.Lon, s.q.Shape.Lat = lon, lat
	return nil
}

func (s *geoSearch) radius(args [][]byte) (err error) {
	radius, ok := ParseFloat(args[0])
	switch {
	case !ok:
		return errGeoRadius
	case radius < 0:
		return errGeoCircle
	}
	s.q.Shape.Radius = radius
	s.q.Shape.Unit, err = geoUnit(args[1])
	return err
}

func (s *geoSearch) box(args [][]byte) (err error) {
	width, ok := ParseFloat(args[0])
	if !ok {
		return errGeoWidth
	}
	height, ok := ParseFloat(args[1])
	switch {
	case !ok:
		return errGeoHeight
	case width < 0 || height < 0:
		return errGeoBox
	}
	s.q.Shape.Width, s.q.Shape.Height, s.q.Shape.Box = width, height, true
	s.q.Shape.Unit, err = geoUnit(args[2])
	return err
}

// parseOption reads one option and returns the arguments after it.
func (s *geoSearch) parseOption(args [][]byte) (rest [][]byte, err error) {
	search := s.form == formSearch || s.form == formStore
	name, rest := args[0], args[1:]
	switch {
	case EqualFold(name, "WITHDIST"):
		s.withDistance = true
	case EqualFold(name, "WITHHASH"):
		s.withHash = true
	case EqualFold(name, "WITHCOORD"):
		s.withPosition = true
	case EqualFold(name, "ANY"):
		s.q.Any = true
	case EqualFold(name, "ASC"):
		s.q.Order = geo.Nearest
	case EqualFold(name, "DESC"):
		s.q.Order = geo.Furthest
	case EqualFold(name, "COUNT") && len(rest) >= 1:
		n, ok := ParseInt(rest[0])
		switch {
		case !ok:
			return nil, ErrNotInteger
		case n <= 0:
			return nil, errGeoCount
		}
		s.q.Count = int(n)
		return rest[1:], nil
	case EqualFold(name, "STORE") && len(rest) >= 1 && s.mayStore():
		s.store, s.byDistance = rest[0], false
		return rest[1:], nil
	case EqualFold(name, "STOREDIST") && len(rest) >= 1 && s.mayStore():
		s.store, s.byDistance = rest[0], true
		return rest[1:], nil
	case EqualFold(name, "STOREDIST") && s.form == formStore:
		s.byDistance = true
	case EqualFold(name, "FROMMEMBER") && len(rest) >= 1 && search && !s.fromPosition:
		s.fromMember = true
		if s.exists {
			err = s.member(rest[0])
		}
		return rest[1:], err
	case EqualFold(name, "FROMLONLAT") && len(rest) >= 2 && search && !s.fromMember:
		s.fromPosition = true
		return rest[2:], s.position(rest)
	case EqualFold(name, "BYRADIUS") && len(rest) >= 2 && search && !s.byBox:
		s.byRadius = true
		return rest[2:], s.radius(rest)
	case EqualFold(name, "BYBOX") && len(rest) >= 3 && search && !s.byRadius:
		s.byBox = true
		return rest[3:], s.box(rest)
	default:
		return nil, ErrSyntax
	}
	return rest, nil
}

// mayStore reports whether STORE and STOREDIST name a key: in the forms of GEORADIUS that write.
func (s *geoSearch) mayStore() bool {
	return (s.form == formPosition || s.form == formMember) && s.c.Spec.Flags&Write != 0
}

// check reports missing options and options that exclude each other.
func (s *geoSearch) check() error {
	search := s.form == formSearch || s.form == formStore
	name := string(echoed(s.c.Args[0]))
	switch {
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
