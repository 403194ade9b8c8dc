// RocksDB's callbacks: compaction filters, the table properties collector, the event listener, the prefix of filters.
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/listener.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table_properties.h>

#include <algorithm>
#include <climits>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "internal.h"

using namespace rocksdb;

extern "C" {
// Defined in Go. They are called on RocksDB's threads; their pointer arguments are valid only during the call.
int bkGoVerdict(uintptr_t handle, int kind, char* key, size_t klen, char* val, size_t vlen, uint64_t* end,
                uint64_t* before);
void bkGoEvent(uintptr_t handle, int kind, char* family, char* text, int code);
}

namespace {

enum Verdict { kKeep = 0, kDrop = 1, kDropIfZero = 2, kDropIfExpired = 3, kSeries = 4 };

inline uint32_t be32(const char* p) {
  const unsigned char* u = reinterpret_cast<const unsigned char*>(p);
  return uint32_t(u[0]) << 24 | uint32_t(u[1]) << 16 | uint32_t(u[2]) << 8 | u[3];
}
inline uint64_t be64(const char* p) { return uint64_t(be32(p)) << 32 | be32(p + 4); }

// Returns the length of the prefix that all subkeys of one version of a key share; 0 if the key has another form.
//   u8 len(ns) · ns · [u16 slot] · u32 len(key) · key · u64 version
size_t shared_prefix(const Slice& k, bool slots) {
  if (k.empty()) return 0;
  size_t o = 1 + static_cast<unsigned char>(k[0]) + (slots ? 2 : 0);
  if (k.size() < o + 4) return 0;
  size_t n = be32(k.data() + o);
  if (k.size() - o - 4 < n + 8) return 0;
  return o + 4 + n + 8;
}

bool all_zero(const Slice& v) {
  for (size_t i = 0; i < v.size(); i++)
    if (v[i]) return false;
  return true;
}

inline uint64_t now_ms() { return static_cast<uint64_t>(Env::Default()->NowMicros() / 1000); }

// Returns whether a field, which begins with u64 expiry in ms (0 = never), expired before a time.
bool field_expired(const Slice& v, uint64_t before) {
  if (v.size() < 8) return false;
  uint64_t expire = be64(v.data());
  return expire != 0 && expire < before;
}

// Returns whether the last sample of a time series' chunk is older than a timestamp. A chunk is
//   u32 flags (1 = compressed) · u32 count · count × (u64 timestamp · f64 value), the samples in little-endian
bool old_chunk(const Slice& v, uint64_t before) {
  if (v.size() < 24 || (v[3] & 1)) return false;
  uint64_t count = be32(v.data() + 4);
  if (count == 0 || (v.size() - 8) / 16 < count) return false;
  uint64_t last = 0;
  for (int i = 7; i >= 0; i--) last = last << 8 | static_cast<unsigned char>(v[8 + (count - 1) * 16 + i]);
  return last < before;
}

// The C++ implementation of compaction.Settled: true only if the rules, which are in Go, certainly keep the metadata
// record. A call into Go takes longer than everything else that a compaction does with a record, and competes with
// commands for the threads that run Go code. The record is
//   u8 flags · u64 expire · [u64 version · u64 size], or without the flag 0x80 u32 expire · [u64 version · u32 size]
bool settled(const Slice& v) {
  if (v.empty()) return false;
  const int type = v[0] & 0x0f;
  const bool wide = v[0] & 0x80;
  const size_t head = wide ? 9 : 5;
  if (v.size() < head || (wide ? be64(v.data() + 1) : be32(v.data() + 1)) != 0) return false;
  if (type == 1 || type == 10) return true;
  const size_t all = head + (wide ? 16 : 12);
  if (v.size() < all || (type == 2 && v.size() > all)) return false;
  return (wide ? be64(v.data() + 17) : be32(v.data() + 13)) != 0;
}

// Judged is what the filter of a thread's compaction has last learned about the collection whose subkeys it sees. The
// same thread then adds those subkeys to a file, whose collector needs their expiry and should not look it up again.
struct Judged {
  std::string prefix;  // up to and including the version; empty = nothing is known
  uint64_t end = 0;    // ms since the epoch, 0 = never
  bool fields = false; // each value begins with an expiry of its own
};
thread_local Judged judged;

// One object for each compaction (and subcompaction), created by the factory, so the cache below has one user.
class KeyFilter : public CompactionFilter {
 public:
  KeyFilter(uintptr_t handle, int kind, bool slots) : handle_(handle), kind_(kind), slots_(slots) {}
  ~KeyFilter() override {
    judged.prefix.clear();
    char none[] = "";
    if (expired_fields_ > 0)
      bkGoEvent(handle_, BK_EV_FIELDS, none, none, static_cast<int>(std::min<uint64_t>(expired_fields_, INT_MAX)));
  }
  const char* Name() const override { return "basalt.filter"; }

  bool Filter(int, const Slice& key, const Slice& value, std::string*, bool*) const override {
    if (kind_ == BK_FILTER_METADATA && settled(value)) return false;
    uint64_t end = 0;
    if (kind_ != BK_FILTER_SUBKEY) return ask(key, value, &end) == kDrop;
    int v = subkey(key);
    if (v == kDropIfExpired && field_expired(value, before_)) {
      expired_fields_++;
      return true;
    }
    if (v == kSeries) return series(key, value);
    return v == kDrop || (v == kDropIfZero && all_zero(value));
  }

  // With blob files the value is not loaded unless the verdict needs it.
  Decision FilterBlobByKey(int, const Slice& key, std::string*, std::string*) const override {
    if (kind_ != BK_FILTER_SUBKEY) return Decision::kUndetermined;
    switch (subkey(key)) {
      case kDrop: return Decision::kRemove;
      case kDropIfZero:
      case kDropIfExpired:
      case kSeries: return Decision::kUndetermined;
      default: return Decision::kKeep;
    }
  }

 private:
  int ask(const Slice& key, const Slice& value, uint64_t* end) const {
    return bkGoVerdict(handle_, kind_, const_cast<char*>(key.data()), key.size(), const_cast<char*>(value.data()),
                       value.size(), end, &before_);
  }
  // The first byte of a time series' subkey is 0 for a chunk, 1 for a label, 2 for a rule.
  bool series(const Slice& key, const Slice& value) const {
    if (key.size() == cached_.size()) return false;
    char part = key[cached_.size()];
    if (part == 0) return old_chunk(value, before_);
    if (part != 2) return false;
    uint64_t end = 0, before = 0;
    return bkGoVerdict(handle_, kind_, const_cast<char*>(key.data()), key.size(), nullptr, 0, &end, &before) == kDrop;
  }
  // All subkeys of one version get the same verdict, so Go is asked once for each prefix.
  int subkey(const Slice& key) const {
    size_t n = shared_prefix(key, slots_);
    if (n == 0) return kKeep;
    if (n == cached_.size() && memcmp(cached_.data(), key.data(), n) == 0) return verdict_;
    cached_.assign(key.data(), n);
    uint64_t end = 0;
    verdict_ = ask(Slice(key.data(), n), Slice(), &end);
    judged.prefix = cached_;
    judged.end = end;
    judged.fields = verdict_ == kDropIfExpired;
    return verdict_;
  }
  uintptr_t handle_;
  int kind_;
  bool slots_;
  mutable std::string cached_;
  mutable int verdict_ = kKeep;
  mutable uint64_t before_ = 0;  // ms: of fields with kDropIfExpired, of samples with kSeries
  mutable uint64_t expired_fields_ = 0;  // dropped
};

class Factory : public CompactionFilterFactory {
 public:
  Factory(uintptr_t handle, int kind, bool slots) : handle_(handle), kind_(kind), slots_(slots) {}
  const char* Name() const override { return "basalt.filter_factory"; }
  std::unique_ptr<CompactionFilter> CreateCompactionFilter(const CompactionFilter::Context&) override {
    return std::unique_ptr<CompactionFilter>(new KeyFilter(handle_, kind_, slots_));
  }

 private:
  uintptr_t handle_;
  int kind_;
  bool slots_;
};

// Expiries records how many bytes of a file's entries will have expired at which time. It keeps at most kMaxPoints
// points in time. Beyond that it merges two neighbours into the later one: the pair for which the product of bytes and
// delay is smallest. So its times may be late, but never early.
class Expiries {
 public:
  void add(uint64_t ms, uint64_t bytes) {
    uint64_t at = ms / 1000 + (ms % 1000 != 0);
    auto p = std::lower_bound(points_.begin(), points_.end(), std::make_pair(at, uint64_t(0)));
    if (p != points_.end() && p->first == at) {
      p->second += bytes;
      return;
    }
    points_.insert(p, {at, bytes});
    if (points_.size() <= kMaxPoints) return;
    size_t least = 0;
    for (size_t i = 1; i + 1 < points_.size(); i++)
      if (lateness(i) < lateness(least)) least = i;
    points_[least + 1].second += points_[least].second;
    points_.erase(points_.begin() + least);
  }
  // text returns pairs of seconds since the epoch and bytes, ascending: "1700000000:4096,1700000060:512".
  std::string text() const {
    std::string s;
    for (auto& p : points_) s += (s.empty() ? "" : ",") + std::to_string(p.first) + ":" + std::to_string(p.second);
    return s;
  }

 private:
  static constexpr size_t kMaxPoints = 16;
  double lateness(size_t i) const {
    return double(points_[i + 1].first - points_[i].first) * double(points_[i].second);
  }
  std::vector<std::pair<uint64_t, uint64_t>> points_;  // second, bytes
};

// Collector counts the keys of a file that is being written, and those of them that are deleted or dead; for what is
// counted see compaction.PropTotalKeys.
class Collector : public TablePropertiesCollector {
 public:
  Collector(bool is_metadata, double trigger, bool outside)
      : is_metadata_(is_metadata), outside_(outside), trigger_(trigger) {}
  const char* Name() const override { return "basalt.collector"; }

  Status AddUserKey(const Slice& key, const Slice& value, EntryType type, SequenceNumber, uint64_t) override {
    total_++;
    if (start_.empty()) start_.assign(key.data(), key.size());
    stop_.assign(key.data(), key.size());
    if (type == kEntryDelete) {
      deleted_++;
    } else if (type == kEntryPut && is_metadata_ && value.size() >= 5) {
      metadata(key, value);
    } else if (type == kEntryPut && !is_metadata_) {
      subkey(key, value);
    }
    return Status::OK();
  }
  Status Finish(UserCollectedProperties* p) override {
    p->emplace("total_keys", std::to_string(total_));
    p->emplace("deleted_keys", std::to_string(deleted_));
    p->emplace("start_key", start_);
    p->emplace("stop_key", stop_);
    p->emplace("basalt.expiries", outside_ && !is_metadata_ ? "unknown" : expiries_.text());
    return Status::OK();
  }
  UserCollectedProperties GetReadableProperties() const override {
    return {{"total_keys", std::to_string(total_)}, {"deleted_keys", std::to_string(deleted_)}};
  }
  bool NeedCompact() const override { return total_ > 0 && double(deleted_) / double(total_) > trigger_; }

 private:
  // weigh returns what RocksDB counts for an entry: the size of its value, and of its key with a sequence number.
  static uint64_t weigh(const Slice& key, const Slice& value) { return key.size() + 8 + value.size(); }
  void subkey(const Slice& key, const Slice& value) {
    const std::string& prefix = judged.prefix;
    if (prefix.empty() || !key.starts_with(prefix)) return;  // a flush has no filter
    uint64_t end = judged.end;
    if (judged.fields && value.size() >= 8) {
      uint64_t own = be64(value.data());
      if (own != 0 && (end == 0 || own < end)) end = own;
    }
    if (end != 0) expiries_.add(end, weigh(key, value));
  }
  void metadata(const Slice& key, const Slice& v) {
    unsigned char flags = v[0];
    int type = flags & 0x0f;
    bool wide = flags & 0x80;
    bool single = type == 1 || type == 10;
    size_t need = (wide ? 9 : 5) + (single ? 0 : (wide ? 16 : 12));
    if (v.size() < need) return;
    uint64_t expire = wide ? be64(v.data() + 1) : uint64_t(be32(v.data() + 1)) * 1000;
    uint64_t size = 0;
    if (!single) size = wide ? be64(v.data() + 17) : be32(v.data() + 13);
    total_ += size;
    // A hash without persistent fields counts as expired after the last expiry of its fields (cf.HashTTL).
    const char* t = v.data() + need;
    if (type == 2 && v.size() == need + 25 && t[0] == 1 && be64(t + 1) == 0) {
      uint64_t upper = be64(t + 17);
      if (upper != 0 && (expire == 0 || upper < expire)) expire = upper;
    }
    if (expire != 0) expiries_.add(expire, weigh(key, v));
    bool may_be_empty = single || type == 8 || type == 9 || type >= 11;
    if ((expire != 0 && expire < now_ms()) || (size == 0 && !may_be_empty)) deleted_ += size + 1;
  }
  bool is_metadata_;
  bool outside_;  // the file is made to be ingested: no filter says when subkeys expire
  double trigger_;
  uint64_t total_ = 0, deleted_ = 0;
  std::string start_, stop_;
  Expiries expiries_;
};

class CollectorFactory : public TablePropertiesCollectorFactory {
 public:
  CollectorFactory(bool is_metadata, double trigger) : is_metadata_(is_metadata), trigger_(trigger) {}
  const char* Name() const override { return "basalt.collector_factory"; }
  TablePropertiesCollector* CreateTablePropertiesCollector(Context c) override {
    return new Collector(is_metadata_, trigger_, c.level_at_creation == Context::kUnknownLevelAtCreation);
  }

 private:
  bool is_metadata_;
  double trigger_;
};

class Listener : public EventListener {
 public:
  explicit Listener(uintptr_t handle) : handle_(handle) {}
  void OnFlushCompleted(DB*, const FlushJobInfo& i) override { send(BK_EV_FLUSH, i.cf_name, i.file_path, 0); }
  void OnCompactionCompleted(DB*, const CompactionJobInfo& i) override {
    send(BK_EV_COMPACTION, i.cf_name,
         std::to_string(i.input_files.size()) + " files to " + std::to_string(i.output_files.size()) +
             " in level " + std::to_string(i.output_level),
         static_cast<int>(i.compaction_reason));
  }
  void OnBackgroundError(BackgroundErrorReason, Status* s) override {
    send(BK_EV_ERROR, "", s->ToString(), static_cast<int>(s->severity()));
  }
  void OnErrorRecoveryEnd(const BackgroundErrorRecoveryInfo& i) override {
    send(BK_EV_RECOVERED, "", "", i.new_bg_error.ok() ? 0 : 1);
  }
  // A memtable is full, and RocksDB has started a new log.
  void OnMemTableSealed(const MemTableInfo& i) override { send(BK_EV_SEALED, i.cf_name, "", 0); }
  void OnStallConditionsChanged(const WriteStallInfo& i) override {
    send(BK_EV_STALL, i.cf_name, "", static_cast<int>(i.condition.cur));
  }

 private:
  void send(int kind, const std::string& family, const std::string& text, int code) {
    bkGoEvent(handle_, kind, const_cast<char*>(family.c_str()), const_cast<char*>(text.c_str()), code);
  }
  uintptr_t handle_;
};

// The filters of table files know the collections that have entries in the file.
class CollectionPrefix : public SliceTransform {
 public:
  explicit CollectionPrefix(bool slots) : slots_(slots) {}
  const char* Name() const override { return slots_ ? "basalt.CollectionInSlot" : "basalt.Collection"; }
  Slice Transform(const Slice& k) const override { return Slice(k.data(), shared_prefix(k, slots_)); }
  bool InDomain(const Slice& k) const override { return shared_prefix(k, slots_) > 0; }

 private:
  bool slots_;
};

void put(std::string* out, uint64_t v, int n) { out->append(reinterpret_cast<char*>(&v), n); }
void put_str(std::string* out, const std::string& s) {
  put(out, s.size(), 4);
  out->append(s);
}

}  // namespace

extern "C" {

void bk_options_set_filter(void* o, uintptr_t handle, int kind, int slots) {
  bk::opts(o).compaction_filter_factory = std::make_shared<Factory>(handle, kind, slots);
}
void bk_options_set_prefix(void* o, int slots) {
  bk::opts(o).prefix_extractor = std::make_shared<CollectionPrefix>(slots);
}
int bk_settled(const char* value, size_t n) { return settled(Slice(value, n)); }
void bk_options_add_collector(void* o, int is_metadata, double trigger) {
  bk::opts(o).table_properties_collector_factories.push_back(std::make_shared<CollectorFactory>(is_metadata, trigger));
}
void bk_options_add_listener(void* o, uintptr_t handle) {
  bk::opts(o).listeners.push_back(std::make_shared<Listener>(handle));
}

int bk_set_db_option(void* db, const char* key, const char* value, char** err) {
  return bk::set_err(err, bk::db(db)->SetDBOptions({{key, value}}));
}
int bk_set_cf_option(void* db, void* cf, const char* key, const char* value, char** err) {
  return bk::set_err(err, bk::db(db)->SetOptions(bk::cf(cf), {{key, value}}));
}
int bk_resume(void* db, char** err) { return bk::set_err(err, bk::db(db)->Resume()); }

int bk_compact_range(void* db, void* cf, const char* start, size_t sl, const char* stop, size_t el, char** err) {
  CompactRangeOptions o;
  o.change_level = true;
  o.exclusive_manual_compaction = false;
  o.bottommost_level_compaction = BottommostLevelCompaction::kForceOptimized;
  Slice a(start, sl), b(stop, el);
  return bk::set_err(err, bk::db(db)->CompactRange(o, bk::cf(cf), sl ? &a : nullptr, el ? &b : nullptr));
}
int bk_compact_files(void* db, void* cf, const char* names, size_t n, int level, uint64_t file_size, char** err) {
  std::vector<std::string> files;
  for (const char *p = names, *end = names + n; p < end;) {
    const char* stop = std::find(p, end, '\n');
    files.emplace_back(p, stop);
    p = stop + 1;
  }
  CompactionOptions o;
  o.compression = kDisableCompressionOption;  // that of the family
  o.output_file_size_limit = file_size;
  Status s = bk::db(db)->CompactFiles(o, bk::cf(cf), files, level);
  // Another compaction is using one of the files, or has removed it.
  if (s.IsAborted() || s.IsInvalidArgument()) return 0;
  return bk::set_err(err, s) ? -1 : 1;
}
void bk_cancel_compactions(void* db) { bk::db(db)->DisableManualCompaction(); }
void bk_cancel_background(void* db) { CancelAllBackgroundWork(bk::db(db), false); }

char* bk_map_property(void* db, void* cf, const char* name, size_t nl, size_t* n) {
  std::map<std::string, std::string> entries;
  if (!bk::db(db)->GetMapProperty(bk::cf(cf), Slice(name, nl), &entries)) return nullptr;
  std::string out;
  for (auto& e : entries) out += e.first + "=" + e.second + "\n";
  *n = out.size();
  char* r = static_cast<char*>(malloc(out.size() + 1));
  memcpy(r, out.data(), out.size());
  return r;
}
char* bk_table_properties(void* db, void* cf, size_t* n, char** err) {
  TablePropertiesCollection props;
  if (bk::set_err(err, bk::db(db)->GetPropertiesOfAllTables(bk::cf(cf), &props))) return nullptr;
  ColumnFamilyMetaData meta;
  bk::db(db)->GetColumnFamilyMetaData(bk::cf(cf), &meta);
  std::unordered_map<std::string, int> levels;  // by file name without the directory, "/000007.sst"
  for (auto& level : meta.levels)
    for (auto& f : level.files) levels[f.name] = level.level;
  std::string out;
  for (auto& f : props) {
    auto level = levels.find(f.first.substr(f.first.find_last_of('/')));
    if (level == levels.end()) continue;  // compacted away meanwhile
    put_str(&out, f.first);
    put(&out, f.second->file_creation_time, 8);
    put(&out, f.second->raw_key_size + f.second->raw_value_size, 8);
    put(&out, static_cast<uint64_t>(level->second), 4);
    for (const char* name : {"total_keys", "deleted_keys", "start_key", "stop_key", "basalt.expiries"}) {
      auto it = f.second->user_collected_properties.find(name);
      if (it == f.second->user_collected_properties.end())
        put(&out, 0xffffffffu, 4);
      else
        put_str(&out, it->second);
    }
  }
  *n = out.size();
  char* r = static_cast<char*>(malloc(out.size() + 1));
  memcpy(r, out.data(), out.size());
  return r;
}

}  // extern "C"
