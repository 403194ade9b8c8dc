package command

import (
	"cmp"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/search"
)

var searchCommands = []Spec{
	{Name: "ft.create", Handler: ftCreate, Arity: -2, Flags: Write | DenyOOM | NoScript | NoMulti | Solo},
	{Name: "ft.dropindex", Handler: ftDropIndex, Arity: 2, Flags: Write | NoScript | NoMulti | Solo | Exclusive},
	{Name: "ft._list", Handler: ftList, Arity: 1, Flags: ReadOnly},
	{Name: "ft.info", Handler: ftInfo, Arity: 2, Flags: ReadOnly},
	{Name: "ft.search", Handler: ftSearch, Arity: -3, Flags: ReadOnly},
	{Name: "ft.searchsql", Handler: ftSearchSQL, Arity: -2, Flags: ReadOnly},
	{Name: "ft.explain", Handler: ftExplain, Arity: -3, Flags: ReadOnly},
	{Name: "ft.explainsql", Handler: ftExplainSQL, Arity: -2, Flags: ReadOnly},
	{Name: "ft.tagvals", Handler: ftTagVals, Arity: 3, Flags: ReadOnly},
}

var (
	errIndexCluster = engine.NewError("ERR", "currently index cannot work in cluster mode")
	errIndexName    = engine.NewError("ERR", "index name cannot be empty")
	errFieldName    = engine.NewError("ERR", "field name cannot be empty")
	errIndexOn      = engine.NewError("ERR", "expect HASH or JSON after ON")
	errNoSchema     = engine.NewError("ERR", "expect SCHEMA section for this index")
	errIndexField   = engine.NewError("ERR", "expect field type TAG, NUMERIC or VECTOR")
	errAlgorithm    = engine.NewError("ERR", "only support HNSW algorithm for vector field")
	errAttributes   = engine.NewError("ERR", "number of attributes is not as required")
	errOddAttribute = engine.NewError("ERR", "number of attributes must be multiple of 2")
	errVectorType   = engine.NewError("ERR", "unsupported vector type")
	errMetric       = engine.NewError("ERR", "unsupported distance metric")
	errNoVectorType = engine.NewError("ERR", "VECTOR field requires TYPE to be set")
	errNoDim        = engine.NewError("ERR", "VECTOR field requires DIM to be set")
	errNoMetric     = engine.NewError("ERR", "VECTOR field requires DISTANCE_METRIC to be set")
	errSeparator    = engine.NewError("ERR", "only one character separator is supported")
	errParams       = engine.NewError("ERR", "nargs of PARAMS must be multiple of 2")
	errDialect      = engine.NewError("ERR", "only DIALECT 2 is supported currently")
	errNoMore       = engine.NewError("ERR", "no more item to parse")
	errAtEnd        = engine.NewError("ERR", "unexpected arguments in the end")
	errFormatSQL    = engine.NewError("ERR", "output format should be SIMPLE or DOT")
	errIndexDenied  = engine.NewError("NOPERM", "the user may not read all keys, which a query of an index requires")
	errNoDot        = engine.NewError("ERR", "the format DOT is not supported")
)

// searchOptions takes the arguments of a command one by one.
type searchOptions struct{ options }

// word takes an argument that must be there.
func (o *searchOptions) word() []byte {
	o.check(len(o.args) > 0, errNoMore)
	return o.next()
}

// count takes a number that is not negative.
func (o *searchOptions) count() int64 {
	n, ok := ParseInt(o.word())
	o.check(ok && n >= 0, ErrNotInteger)
	return n
}

// uint takes a number of so many bits that is not negative.
func (o *searchOptions) uint(bits int) uint64 {
	n := o.count()
	o.check(n>>bits == 0, ErrNotInteger)
	return uint64(n)
}

// list takes a number and as many arguments.
func (o *searchOptions) list() (list [][]byte) {
	n := o.count()
	o.check(n <= int64(len(o.args)), errNoMore)
	if o.err == nil {
		list, o.args = o.args[:n:n], o.args[n:]
	}
	return list
}

// params takes what follows PARAMS: names and values.
func (o *searchOptions) params() map[string]string {
	list := o.list()
	o.check(len(list)%2 == 0, errParams)
	params := map[string]string{}
	for ; len(list) > 1; list = list[2:] {
		if _, ok := params[string(list[0])]; !ok {
			params[string(list[0])] = string(list[1])
		}
	}
	return params
}

func ftCreate(c *Ctx) error {
	ix, err := parseIndex(c.Args[1:])
	switch {
	case err != nil:
		return err
	case c.Srv.Cluster != nil || c.Srv.DB.Slots():
		return errIndexCluster
	}
	ix.Namespace = c.Tx.Namespace()
	return replyOK(c, c.Srv.Indexes.Create(ix, c.Sess.Control.Update))
}

// parseIndex reads name [ON HASH | JSON] [PREFIX n prefix ...] SCHEMA field type option ... and so on.
func parseIndex(args [][]byte) (*search.Index, error) {
	ix := &search.Index{Name: string(args[0]), On: cf.TypeHash}
	o := searchOptions{options{args: args[1:]}}
	o.check(ix.Name != "", errIndexName)
	for more := true; more && o.err == nil; {
		switch {
		case o.is("ON"):
			switch {
			case o.is("HASH"):
				ix.On = cf.TypeHash
			case o.is("JSON"):
				ix.On = cf.TypeJSON
			default:
				o.err = errIndexOn
			}
		case o.is("PREFIX"):
			for _, p := range o.list() {
				ix.Prefixes = append(ix.Prefixes, append([]byte{}, p...))
			}
		default:
			more = false
		}
	}
	o.check(o.is("SCHEMA"), errNoSchema)
	for o.more() {
		if f := parseField(&o); o.err == nil {
			o.err = ix.Add(f)
		}
	}
	return ix, o.err
}

func parseField(o *searchOptions) (f search.Field) {
	f.Name = string(o.next())
	o.check(f.Name != "", errFieldName)
	switch {
	case o.is("TAG"):
		f.Type, f.Separator = cf.SearchTag, ','
	case o.is("NUMERIC"):
		f.Type = cf.SearchNumeric
	case o.is("VECTOR"):
		f.Type = cf.SearchVector
		parseVector(o, &f)
		return f
	default:
		o.check(false, errIndexField)
	}
	for {
		tag := f.Type == cf.SearchTag
		switch {
		case o.flag("NOINDEX", &f.NoIndex):
		case tag && o.flag("CASESENSITIVE", &f.CaseSensitive):
		case tag && o.is("SEPARATOR"):
			sep := o.word()
			o.check(len(sep) == 1, errSeparator)
			if o.err == nil {
				f.Separator = sep[0]
			}
		default:
			return f
		}
	}
}

// parseVector reads HNSW n and as many words: TYPE FLOAT64 DIM d DISTANCE_METRIC L2 | IP | COSINE, and maybe M,
// EF_CONSTRUCTION, EF_RUNTIME, INITIAL_CAP and EPSILON with a number. As in Kvrocks n is an upper bound. (Kvrocks does
// not know INITIAL_CAP, although its format has it.)
func parseVector(o *searchOptions, f *search.Field) {
	o.check(o.is("HNSW"), errAlgorithm)
	v := &f.Vector
	*v = cf.SearchVectorParams{InitialCap: 500000, M: 16, EFConstruction: 200, EFRuntime: 10, Epsilon: 0.01}
	n := o.uint(8)
	o.check(n >= 6, errAttributes)
	o.check(n%2 == 0, errOddAttribute)
	dim, metric := false, false
	for more := true; more && o.err == nil; n -= 2 {
		switch {
		case o.flag("NOINDEX", &f.NoIndex):
			n += 2
		case n == 0:
			more = false
		case o.is("TYPE"):
			o.check(o.is("FLOAT64"), errVectorType)
			v.VectorType = search.Float64Vector
		case o.flag("DISTANCE_METRIC", &metric):
			switch {
			case o.is("L2"):
				v.Metric = search.MetricL2
			case o.is("IP"):
				v.Metric = search.MetricIP
			case o.is("COSINE"):
				v.Metric = search.MetricCosine
			default:
				o.err = errMetric
			}
		case o.flag("DIM", &dim):
			v.Dim = uint16(o.uint(16))
		case o.is("M"):
			v.M = uint16(o.uint(16))
		case o.is("EF_CONSTRUCTION"):
			v.EFConstruction = uint32(o.uint(32))
		case o.is("EF_RUNTIME"):
			v.EFRuntime = uint32(o.uint(32))
		case o.is("INITIAL_CAP"):
			v.InitialCap = uint32(o.uint(32))
		case o.is("EPSILON"):
			var ok bool
			v.Epsilon, ok = ParseFloat(o.word())
			o.check(ok, ErrNotFloat)
		default:
			more = false
		}
	}
	o.check(v.VectorType != 0, errNoVectorType)
	o.check(dim, errNoDim)
	o.check(metric, errNoMetric)
}

func ftDropIndex(c *Ctx) error {
	if !c.Srv.Indexes.Any() {
		return search.ErrMissing
	}
	return replyOK(c, c.Srv.Indexes.Drop(c.Tx, string(c.Args[1])))
}

func ftList(c *Ctx) error {
	list := c.Srv.Indexes.List(c.Tx.Namespace())
	c.Out.Array(len(list))
	for _, ix := range list {
		c.Out.BulkString(ix.Name)
	}
	return nil
}

// ftInfo replies as Kvrocks does since 2.12.
func ftInfo(c *Ctx) error {
	ix, err := c.Srv.Indexes.Find(c.Tx.Namespace(), string(c.Args[1]))
	if err != nil {
		return err
	}
	out := c.Out
	label := func(text string) { out.SimpleString(text) }
	out.Array(6)
	label("index_name")
	out.BulkString(ix.Name)
	label("index_definition")
	out.Array(4)
	label("key_type")
	out.BulkString(ix.On.String())
	label("prefixes")
	out.Array(len(ix.Prefixes))
	for _, p := range ix.Prefixes {
		out.Bulk(p)
	}
	label("fields")
	out.Array(len(ix.Fields))
	for _, f := range ix.Fields {
		out.Array(6)
		label("identifier")
		out.BulkString(f.Name)
		label("type")
		switch f.Type {
		case cf.SearchTag:
			out.BulkString("tag")
			label("properties")
			out.Array(4)
			label("separator")
			out.Bulk([]byte{f.Separator})
			label("case_sensitive")
			out.Bool(f.CaseSensitive)
		case cf.SearchNumeric:
			out.BulkString("numeric")
			label("properties")
			out.Array(0)
		default:
			out.BulkString("vector")
			label("properties")
			vectorInfo(c, &f.Vector)
		}
	}
	return nil
}

func vectorInfo(c *Ctx, v *cf.SearchVectorParams) {
	out := c.Out
	out.Array(16)
	metric := strconv.Itoa(int(v.Metric))
	if names := []string{"L2", "IP", "COSINE"}; int(v.Metric) < len(names) {
		metric = names[v.Metric]
	}
	for _, p := range [][2]string{{"algorithm", "HNSW"}, {"vector_type", "FLOAT64"}} {
		out.SimpleString(p[0])
		out.BulkString(p[1])
	}
	out.SimpleString("dim")
	out.Int(int64(v.Dim))
	out.SimpleString("distance_metric")
	out.BulkString(metric)
	out.SimpleString("m")
	out.Int(int64(v.M))
	out.SimpleString("ef_construction")
	out.Int(int64(v.EFConstruction))
	out.SimpleString("ef_runtime")
	out.Int(int64(v.EFRuntime))
	out.SimpleString("epsilon")
	out.Double(v.Epsilon)
}

// parseSearch reads the arguments of FT.SEARCH and FT.EXPLAIN: index query [RETURN n field ...]
// [SORTBY field [ASC | DESC]] [LIMIT offset count] [PARAMS n name value ...] [DIALECT 2].
func parseSearch(c *Ctx) (*search.Query, error) {
	o := searchOptions{options{args: c.Args[3:]}}
	var params map[string]string
	var fields []string
	var sortBy []byte
	var desc bool
	offset, count := int64(0), int64(-1)
	for o.more() {
		switch {
		case o.is("RETURN"), o.is("RETURNS"): // RETURNS in Kvrocks before 2.12
			if fields == nil {
				fields = []string{} // RETURN 0: no fields, as in RediSearch
			}
			for _, f := range o.list() {
				fields = append(fields, string(f))
			}
		case o.is("SORTBY"):
			if sortBy = o.word(); !o.is("ASC") {
				desc = o.is("DESC")
			}
		case o.is("LIMIT"):
			offset = o.count()
			count = o.count()
		case o.is("PARAMS"):
			params = o.params()
		case o.is("DIALECT"):
			o.check(o.count() == 2, errDialect)
		default:
			o.err = ErrSyntax
		}
	}
	if o.err != nil {
		return nil, o.err
	}
	q, err := search.Parse(string(c.Args[1]), string(c.Args[2]), params)
	if err != nil {
		return nil, err
	}
	q.Return, q.Offset, q.Count = fields, offset, count
	if sortBy != nil {
		q.SortBy(string(sortBy), desc)
	}
	return q, nil
}

// parseSearchSQL reads the arguments of FT.SEARCHSQL and FT.EXPLAINSQL: query [PARAMS n name value ...]. It returns
// what follows.
func parseSearchSQL(c *Ctx) (q *search.Query, rest options, err error) {
	o := searchOptions{options{args: c.Args[2:]}}
	var params map[string]string
	if o.is("PARAMS") {
		params = o.params()
	}
	if o.err != nil {
		return nil, o.options, o.err
	}
	q, err = search.ParseSQL(string(c.Args[1]), params)
	return q, o.options, err
}

func ftSearch(c *Ctx) error {
	q, err := parseSearch(c)
	if err != nil {
		return err
	}
	return runSearch(c, q)
}

func ftSearchSQL(c *Ctx) error {
	q, rest, err := parseSearchSQL(c)
	switch {
	case err != nil:
		return err
	case rest.more():
		return errAtEnd
	}
	return runSearch(c, q)
}

// runSearch replies with the number of results, and for each the key and, unless the query wants none, its fields. As
// in Kvrocks the number does not count what LIMIT leaves out.
func runSearch(c *Ctx, q *search.Query) error {
	if !mayReadAllKeys(c) {
		return errIndexDenied
	}
	b := bound(c)
	mark, n := c.Out.Mark(), 0
	items := 2
	if q.Return != nil && len(q.Return) == 0 {
		items = 1
	}
	var text []byte
	var long error
	err := c.Srv.Indexes.Run(c.Tx, q, func(row *search.Row, fields []*search.Field) bool {
		n++
		c.Out.Bulk(row.Key)
		if items == 2 {
			c.Out.Array(2 * len(fields))
		}
		for _, f := range fields {
			c.Out.BulkString(f.Name)
			text = row.Value(f).Append(text[:0], f)
			c.Out.Bulk(text)
		}
		long = b.check()
		return long == nil
	})
	if err = cmp.Or(err, long); err != nil {
		return err
	}
	c.Out.InsertInt(mark, int64(n))
	c.Out.InsertArray(mark, items*n+1)
	return nil
}

func ftExplain(c *Ctx) error {
	q, err := parseSearch(c)
	if err != nil {
		return err
	}
	return explain(c, q)
}

func ftExplainSQL(c *Ctx) error {
	q, rest, err := parseSearchSQL(c)
	switch {
	case err != nil:
		return err
	case rest.is("SIMPLE"):
	case rest.is("DOT"):
		return errNoDot
	case rest.more():
		return errFormatSQL
	}
	if rest.more() {
		return errAtEnd
	}
	return explain(c, q)
}

func explain(c *Ctx, q *search.Query) error {
	text, err := c.Srv.Indexes.Explain(c.Tx.Namespace(), q)
	return replyString(c, text, err)
}

func ftTagVals(c *Ctx) error {
	if !mayReadAllKeys(c) {
		return errIndexDenied
	}
	b := bound(c)
	mark, n := c.Out.Mark(), 0
	var long error
	err := c.Srv.Indexes.Tags(c.Tx, string(c.Args[1]), string(c.Args[2]), func(tag []byte) bool {
		c.Out.Bulk(tag)
		n++
		long = b.check()
		return long == nil
	})
	if err = cmp.Or(err, long); err != nil {
		return err
	}
	c.Out.InsertSet(mark, n)
	return nil
}
