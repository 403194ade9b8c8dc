// What RocksDB calls back on its threads, with input of every length in allocations of exactly that length: the
// compaction filters, the collector of table properties, the order of zset_score and the caches of column families.
// Linked with RocksDB, which is not instrumented; so only AddressSanitizer checks it (make asan).
#include <rocksdb/cache.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/table.h>
#include <rocksdb/table_properties.h>

#include <memory>
#include <string>

#include "../internal.h"
#include "check.h"

using namespace rocksdb;

// What package rocks exports to the shim.
extern "C" {
int bkGoVerdict(uintptr_t, int, char* key, size_t klen, char* val, size_t vlen, uint64_t* end) {
  unsigned sum = 0;
  for (size_t i = 0; i < klen; i++) sum += static_cast<unsigned char>(key[i]);
  for (size_t i = 0; i < vlen; i++) sum += static_cast<unsigned char>(val[i]);
  *end = sum;
  return sum % 4;
}
void bkGoEvent(uintptr_t, int, char*, char*, int) {}
}

namespace {

// Exact is a text in an allocation of its length.
class Exact {
 public:
  explicit Exact(const std::string& s) : n_(s.size()), p_(new char[s.size()]) { memcpy(p_.get(), s.data(), s.size()); }
  Slice slice() const { return Slice(p_.get(), n_); }

 private:
  size_t n_;
  std::unique_ptr<char[]> p_;
};

// text returns bytes of which many are such as keys and metadata begin with.
std::string text(Random* r) {
  std::string s(r->below(r->below(4) == 0 ? 300 : 40), 0);
  for (auto& c : s) c = char(r->below(3) == 0 ? r->below(256) : r->below(3));
  if (!s.empty() && r->below(2)) s[0] = char(0x80 | r->below(13));
  return s;
}

void filters(Random* r) {
  for (int kind = BK_FILTER_METADATA; kind <= BK_FILTER_INDEX; kind++) {
    for (int slots = 0; slots < 2; slots++) {
      rocksdb_options_t o;
      bk_options_set_filter(&o, 1, kind, slots);
      auto filter = o.rep.compaction_filter_factory->CreateCompactionFilter(CompactionFilter::Context());
      for (int i = 0; i < 20000; i++) {
        Exact key(text(r)), value(text(r));
        std::string out;
        bool changed = false;
        filter->Filter(0, key.slice(), value.slice(), &out, &changed);
        CHECK(!changed, "kind %d changes a value", kind);
        filter->FilterBlobByKey(0, key.slice(), &out, &out);
        bk_settled(value.slice().data(), value.slice().size());
      }
    }
  }
}

void collectors(Random* r) {
  for (int metadata = 0; metadata < 2; metadata++) {
    rocksdb_options_t o;
    bk_options_add_collector(&o, metadata, 0.3);
    std::unique_ptr<TablePropertiesCollector> c(
        o.rep.table_properties_collector_factories[0]->CreateTablePropertiesCollector({}));
    for (int i = 0; i < 20000; i++) {
      Exact key(text(r)), value(text(r));
      c->AddUserKey(key.slice(), value.slice(), EntryType(r->below(5)), i, i);
    }
    UserCollectedProperties p;
    c->Finish(&p);
    c->NeedCompact();
    c->GetReadableProperties();
    CHECK(p.count("total_keys") && p.count("start_key"), "properties are missing");
  }
}

void order(Random* r) {
  rocksdb_options_t o;
  bk_options_set_comparator(&o);
  for (int i = 0; i < 100000; i++) {
    Exact a(text(r)), b(text(r));
    int want = a.slice().compare(b.slice()), got = o.rep.comparator->Compare(a.slice(), b.slice());
    CHECK((want < 0) == (got < 0) && (want > 0) == (got > 0), "%d and not %d", got, want);
    CHECK(bk_compare_zset_score(a.slice().data(), a.slice().size(), b.slice().data(), b.slice().size()) == got,
          "twins differ");
    if (got < 0) {
      std::string s = a.slice().ToString();
      o.rep.comparator->FindShortestSeparator(&s, b.slice());
      CHECK(a.slice().compare(s) <= 0 && b.slice().compare(s) > 0, "a separator does not separate");
    }
  }
}

// caches looks up in the caches of two families, whose options outlive the shared cache.
void caches(Random* r) {
  auto shared = bk_cache_new(1 << 20, 0, 4096);
  rocksdb_options_t families[2];
  std::shared_ptr<Cache> cache[2];
  for (int i = 0; i < 2; i++) {
    bk_options_set_table(&families[i], shared, 4096, 1, 1, 1);
    cache[i] = families[i].rep.table_factory->GetOptions<BlockBasedTableOptions>()->block_cache;
  }
  bk_cache_free(shared);
  uint64_t want[2][2] = {};
  for (int i = 0; i < 20000; i++) {
    auto family = r->below(2);
    Exact key(text(r));
    auto handle = cache[family]->Lookup(key.slice(), nullptr);
    want[family][handle != nullptr]++;
    if (handle) {
      cache[family]->Release(handle);
    } else {
      auto deleter = [](const Slice&, void* value) { delete static_cast<char*>(value); };
      CHECK(cache[family]->Insert(key.slice(), new char, 1, deleter).ok(), "no room");
    }
  }
  cache[0].reset();
  cache[1].reset();
  for (int i = 0; i < 2; i++) {
    uint64_t hits, misses;
    CHECK(bk_family_lookups(&families[i], &hits, &misses), "family %d does not count", i);
    CHECK(hits == want[i][1] && misses == want[i][0], "family %d: %zu hits, %zu misses", i, size_t(hits),
          size_t(misses));
  }
}

// Families of a new database: their handles are used and freed, and an error leaves none.
void createFamilies() {
  char dir[] = "/tmp/shim_test.XXXXXX";
  CHECK(mkdtemp(dir), "no directory");
  rocksdb_options_t options;
  options.rep.create_if_missing = true;
  rocksdb_t db;
  CHECK(DB::Open(options.rep, dir, &db.rep).ok(), "not opened");
  char a[] = "a", b[] = "b", c[] = "c";
  char* names[] = {a, b};
  void* families[] = {&options, &options};
  void* handles[2];
  char* err = nullptr;
  bk_create_families(&db, 2, names, families, handles, &err);
  CHECK(!err, "%s", err);
  std::string value;
  for (int i = 0; i < 2; i++) {
    CHECK(bk::cf(handles[i])->GetID() == uint32_t(i + 1), "number %u", bk::cf(handles[i])->GetID());
    CHECK(db.rep->Put(WriteOptions(), bk::cf(handles[i]), "key", names[i]).ok(), "not written");
    CHECK(db.rep->Get(ReadOptions(), bk::cf(handles[i]), "key", &value).ok() && value == names[i], "%s", value.c_str());
    rocksdb_column_family_handle_destroy(static_cast<rocksdb_column_family_handle_t*>(handles[i]));
  }
  char* twice[] = {c, c};
  bk_create_families(&db, 2, twice, families, handles, &err);
  CHECK(err, "a family was created twice");
  free(err);
  delete db.rep;
  CHECK(DestroyDB(dir, options.rep, {{"a", {}}, {"b", {}}, {"c", {}}}).ok(), "not removed");
}

}  // namespace

int main() {
  Random r(1);
  filters(&r);
  collectors(&r);
  order(&r);
  caches(&r);
  createFamilies();
  puts("shim: ok");
}
