package command

import (
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

// ftWords takes the arguments of a command one by one.
type ftWords [][]byte

// eat takes the next argument if it is the word.
func (w *ftWords) eat(word string) bool {
	if len(*w) == 0 || !EqualFold((*w)[0], word) {
		return false
	}
	*w = (*w)[1:]
	return true
}

func (w *ftWords) next() (arg []byte, err error) {
	if len(*w) == 0 {
		return nil, errNoMore
	}
	arg, *w = (*w)[0], (*w)[1:]
	return arg, nil
}

// count takes a number that is not negative.
func (w *ftWords) count() (int64, error) {
	arg, err := w.next()
	if err != nil {
		return 0, err
	}
	n, ok := ParseInt(arg)
	if !ok || n < 0 {
		return 0, ErrNotInteger
	}
	return n, nil
}

// uint takes a number of so many bits that is not negative.
func (w *ftWords) uint(bits int) (uint64, error) {
	n, err := w.count()
	if err == nil && n>>bits != 0 {
		err = ErrNotInteger
	}
	return uint64(n), err
}

// float takes a floating-point number.
func (w *ftWords) float() (float64, error) {
	arg, err := w.next()
	if err != nil {
		return 0, err
	}
	x, ok := ParseFloat(arg)
	if !ok {
		return 0, ErrNotFloat
	}
	return x, nil
}

// list takes a number and as many arguments.
func (w *ftWords) list() ([][]byte, error) {
	n, err := w.count()
	if err == nil && n > int64(len(*w)) {
		err = errNoMore
	}
	if err != nil {
		return nil, err
	}
	var list [][]byte
	list, *w = (*w)[:n:n], (*w)[n:]
	return list, nil
}

// params takes what follows PARAMS: names and values.
func (w *ftWords) params() (map[string]string, error) {
	list, err := w.list()
	if err != nil {
		return nil, err
	}
	if len(list)%2 != 0 {
		return nil, errParams
	}
	params := map[string]string{}
	for ; len(list) > 0; list = list[2:] {
		if _, ok := params[string(list[0])]; !ok {
			params[string(list[0])] = string(list[1])
		}
	}
	return params, nil
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
func parseIndex(w ftWords) (*search.Index, error) {
	ix := &search.Index{Name: string(w[0]), On: cf.TypeHash}
	if ix.Name == "" {
		return nil, errIndexName
	}
	w = w[1:]
	for more := true; more; {
		switch {
		case w.eat("ON"):
			switch {
			case w.eat("HASH"):
				ix.On = cf.TypeHash
			case w.eat("JSON"):
				ix.On = cf.TypeJSON
			default:
				return nil, errIndexOn
			}
		case w.eat("PREFIX"):
			prefixes, err := w.list()
			if err != nil {
				return nil, err
			}
			for _, p := range prefixes {
				ix.Prefixes = append(ix.Prefixes, append([]byte{}, p...))
			}
		default:
			more = false
		}
	}
	if !w.eat("SCHEMA") {
		return nil, errNoSchema
	}
	for len(w) > 0 {
		f, err := parseField(&w)
		if err == nil {
			err = ix.Add(f)
		}
		if err != nil {
			return nil, err
		}
	}
	return ix, nil
}

func parseField(w *ftWords) (f search.Field, err error) {
	name, err := w.next()
	if err != nil {
		return f, err
	}
	if f.Name = string(name); f.Name == "" {
		return f, errFieldName
	}
	switch {
	case w.eat("TAG"):
		f.Type, f.Separator = cf.SearchTag, ','
	case w.eat("NUMERIC"):
		f.Type = cf.SearchNumeric
	case w.eat("VECTOR"):
		f.Type = cf.SearchVector
		return f, parseVector(w, &f)
	default:
		return f, errIndexField
	}
	for {
		tag := f.Type == cf.SearchTag
		switch {
		case w.eat("NOINDEX"):
			f.NoIndex = true
		case tag && w.eat("CASESENSITIVE"):
			f.CaseSensitive = true
		case tag && w.eat("SEPARATOR"):
			sep, err := w.next()
			if err != nil {
				return f, err
			}
			if len(sep) != 1 {
				return f, errSeparator
			}
			f.Separator = sep[0]
		default:
			return f, nil
		}
	}
}

// parseVector reads HNSW n and as many words: TYPE FLOAT64 DIM d DISTANCE_METRIC L2 | IP | COSINE, and maybe M,
// EF_CONSTRUCTION, EF_RUNTIME, INITIAL_CAP and EPSILON with a number. As in Kvrocks n is an upper bound. (Kvrocks does
// not know INITIAL_CAP, although its format has it.)
func parseVector(w *ftWords, f *search.Field) error {
	if !w.eat("HNSW") {
		return errAlgorithm
	}
	v := &f.Vector
	*v = cf.SearchVectorParams{InitialCap: 500000, M: 16, EFConstruction: 200, EFRuntime: 10, Epsilon: 0.01}
	n, err := w.uint(8)
	switch {
	case err != nil:
		return err
	case n < 6:
		return errAttributes
	case n%2 != 0:
		return errOddAttribute
	}
	dim, metric := false, false
	for more := true; more; n -= 2 {
		var x uint64
		switch {
		case w.eat("NOINDEX"):
			f.NoIndex, n = true, n+2
		case n == 0:
			more = false
		case w.eat("TYPE"):
			if !w.eat("FLOAT64") {
				return errVectorType
			}
			v.VectorType = search.Float64Vector
		case w.eat("DISTANCE_METRIC"):
			switch {
			case w.eat("L2"):
				v.Metric = search.MetricL2
			case w.eat("IP"):
				v.Metric = search.MetricIP
			case w.eat("COSINE"):
				v.Metric = search.MetricCosine
			default:
				return errMetric
			}
			metric = true
		case w.eat("DIM"):
			x, err = w.uint(16)
			v.Dim, dim = uint16(x), true
		case w.eat("M"):
			x, err = w.uint(16)
			v.M = uint16(x)
		case w.eat("EF_CONSTRUCTION"):
			x, err = w.uint(32)
			v.EFConstruction = uint32(x)
		case w.eat("EF_RUNTIME"):
			x, err = w.uint(32)
			v.EFRuntime = uint32(x)
		case w.eat("INITIAL_CAP"):
			x, err = w.uint(32)
			v.InitialCap = uint32(x)
		case w.eat("EPSILON"):
			v.Epsilon, err = w.float()
		default:
			more = false
		}
		if err != nil {
			return err
		}
	}
	switch {
	case v.VectorType == 0:
		return errNoVectorType
	case !dim:
		return errNoDim
	case !metric:
		return errNoMetric
	}
	return nil
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
	w := ftWords(c.Args[3:])
	var params map[string]string
	var fields []string
	var sortBy []byte
	var desc bool
	offset, count := int64(0), int64(-1)
	for len(w) > 0 {
		var err error
		switch {
		case w.eat("RETURN"), w.eat("RETURNS"): // RETURNS in Kvrocks before 2.12
			var list [][]byte
			if list, err = w.list(); fields == nil {
				fields = []string{} // RETURN 0: no fields, as in RediSearch
			}
			for _, f := range list {
				fields = append(fields, string(f))
			}
		case w.eat("SORTBY"):
			if sortBy, err = w.next(); !w.eat("ASC") {
				desc = w.eat("DESC")
			}
		case w.eat("LIMIT"):
			if offset, err = w.count(); err == nil {
				count, err = w.count()
			}
		case w.eat("PARAMS"):
			params, err = w.params()
		case w.eat("DIALECT"):
			var n int64
			if n, err = w.count(); err == nil && n != 2 {
				err = errDialect
			}
		default:
			err = ErrSyntax
		}
		if err != nil {
			return nil, err
		}
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
func parseSearchSQL(c *Ctx) (q *search.Query, rest ftWords, err error) {
	w := ftWords(c.Args[2:])
	var params map[string]string
	if w.eat("PARAMS") {
		if params, err = w.params(); err != nil {
			return nil, nil, err
		}
	}
	q, err = search.ParseSQL(string(c.Args[1]), params)
	return q, w, err
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
	case len(rest) > 0:
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
	if err == nil {
		err = long
	}
	if err != nil {
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
	case rest.eat("SIMPLE"):
	case rest.eat("DOT"):
		return errNoDot
	case len(rest) > 0:
		return errFormatSQL
	}
	if len(rest) > 0 {
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
	if err == nil {
		err = long
	}
	if err != nil {
		return err
	}
	c.Out.InsertSet(mark, n)
	return nil
}
