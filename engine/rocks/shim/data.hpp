// Point reads, writes and iterators: the hot path.
#include <rocksdb/iterator.h>
#include <rocksdb/write_batch.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "internal.h"

using namespace rocksdb;

namespace {

// Buffers that a thread keeps between two reads: RocksDB copies a value from a memtable into the buffer of a
// PinnableSlice, which does not free it by itself.
struct Kept {
  static constexpr size_t kMax = 1 << 20;   // max bytes of one value
  static constexpr size_t kMaxOfBatch = 64 << 10;  // max bytes of each value of a batch

  PinnableSlice value;
  std::vector<PinnableSlice> values;
  std::vector<Slice> slices;
  std::vector<Status> statuses;
  std::vector<uint32_t> found;  // lengths of values, or kMissing

  // done unpins the block of the value, and frees the buffer if it is larger than limit.
  static void done(PinnableSlice* v, size_t limit) {
    v->Reset();
    std::string* buffer = v->GetSelf();
    if (buffer->capacity() > limit) std::string().swap(*buffer);
  }
};
thread_local Kept kept;

constexpr uint32_t kMissing = 0xffffffffu;

// The result of bk_multiget when it did not fit into buf.
struct Rest {
  std::vector<PinnableSlice> values;
  std::vector<uint32_t> lens;
  size_t vmax;
};

}  // namespace

extern "C" {

size_t bk_kept(void) {
  size_t n = kept.value.GetSelf()->capacity();
  for (auto& v : kept.values) n += v.GetSelf()->capacity();
  return n;
}

int64_t bk_get(void* dbp, void* ro, void* cfp, const char* key, size_t klen, char* buf, size_t cap, void** rest,
               char** err) {
  PinnableSlice& value = kept.value;
  Status s = bk::db(dbp)->Get(static_cast<rocksdb_readoptions_t*>(ro)->rep, bk::cf(cfp), Slice(key, klen), &value);
  if (!s.ok()) {
    Kept::done(&value, Kept::kMax);
    if (s.IsNotFound()) return -1;
    bk::set_err(err, s);
    return -2;
  }
  int64_t n = static_cast<int64_t>(value.size());
  if (value.size() > cap && rest != nullptr) {
    *rest = new PinnableSlice(std::move(value));
    return n;
  }
  if (n > 0) memcpy(buf, value.data(), value.size() < cap ? value.size() : cap);
  Kept::done(&value, Kept::kMax);
  return n;
}

// give_back returns the buffer of a value to the thread for its next reads, unless it is too large.
static void give_back(PinnableSlice* value) {
  bool pinned = value->IsPinned();
  value->Reset();
  std::string& buffer = *value->GetSelf();  // it was taken from a thread, which may be this one
  if (!pinned && buffer.capacity() <= Kept::kMax && buffer.capacity() > kept.value.GetSelf()->capacity()) {
    kept.value.GetSelf()->swap(buffer);
  }
}

void bk_get_rest(void* rest, char* buf) {
  std::unique_ptr<PinnableSlice> value(static_cast<PinnableSlice*>(rest));
  memcpy(buf, value->data(), value->size());
  give_back(value.get());
}

void bk_rest_copy(void* rest, size_t from, char* buf, size_t n) {
  memcpy(buf, static_cast<PinnableSlice*>(rest)->data() + from, n);
}

void bk_rest_free(void* rest) {
  std::unique_ptr<PinnableSlice> value(static_cast<PinnableSlice*>(rest));
  give_back(value.get());
}

// shown returns how many bytes of a value of the given length bk_multiget returns.
static size_t shown(uint32_t len, size_t vmax) { return vmax > 0 && len > vmax ? vmax : len; }

// copy_values writes the result of bk_multiget.
static void copy_values(const PinnableSlice* values, const uint32_t* lens, int n, size_t vmax, char* buf) {
  for (int i = 0; i < n; i++) {
    memcpy(buf, &lens[i], 4);
    buf += 4;
    if (lens[i] == kMissing || lens[i] == 0) continue;
    size_t part = shown(lens[i], vmax);
    memcpy(buf, values[i].data(), part);
    buf += part;
  }
}

int64_t bk_multiget(void* dbp, void* ro, void* snapshot, void* cfp, int n, const char* keys, const uint32_t* lens,
                    size_t vmax, char* buf, size_t cap, void** rest, char** err) {
  auto& values = kept.values;
  auto& slices = kept.slices;
  auto& statuses = kept.statuses;
  auto& found = kept.found;
  if (values.size() < static_cast<size_t>(n)) {
    values.resize(n);
    slices.resize(n);
    statuses.resize(n);
    found.resize(n);
  }
  const char* p = keys;
  for (int i = 0; i < n; i++) {
    slices[i] = Slice(p, lens[i]);
    p += lens[i];
  }
  const ReadOptions* options = &static_cast<rocksdb_readoptions_t*>(ro)->rep;
  std::optional<ReadOptions> then;
  if (snapshot != nullptr) {
    then = *options;
    then->snapshot = bk::snap(snapshot);
    options = &*then;
  }
  bk::db(dbp)->MultiGet(*options, bk::cf(cfp), n, slices.data(), values.data(), statuses.data(), false);
  size_t need = 0;
  bool failed = false;
  for (int i = 0; i < n; i++) {
    need += 4;
    found[i] = kMissing;
    if (statuses[i].ok()) {
      found[i] = static_cast<uint32_t>(values[i].size());
      need += shown(found[i], vmax);
    } else if (!statuses[i].IsNotFound() && !failed) {
      failed = true;
      bk::set_err(err, statuses[i]);
    }
  }
  if (!failed && need > cap) {
    std::unique_ptr<Rest> r(new Rest);
    r->vmax = vmax;
    r->lens.assign(found.begin(), found.begin() + n);
    r->values.reserve(n);
    for (int i = 0; i < n; i++) r->values.push_back(std::move(values[i]));
    *rest = r.release();
  } else if (!failed) {
    copy_values(values.data(), found.data(), n, vmax, buf);
  }
  for (int i = 0; i < n; i++) Kept::done(&values[i], Kept::kMaxOfBatch);
  return failed ? -2 : static_cast<int64_t>(need);
}

void bk_multiget_rest(void* rest, char* buf) {
  std::unique_ptr<Rest> r(static_cast<Rest*>(rest));
  copy_values(r->values.data(), r->lens.data(), static_cast<int>(r->lens.size()), r->vmax, buf);
}

int64_t bk_write(void* dbp, const char* rep, size_t n, uint32_t flags, char** err) {
  WriteOptions wo;
  wo.sync = flags & BK_SYNC;
  wo.disableWAL = flags & BK_DISABLE_WAL;
  wo.no_slowdown = flags & BK_NO_SLOWDOWN;
  wo.low_pri = flags & BK_LOW_PRI;
  wo.memtable_insert_hint_per_batch = flags & BK_INSERT_HINT;
  WriteBatch batch(std::string(rep, n));
  Status s = bk::db(dbp)->Write(wo, &batch);
  if (s.ok()) {  // RocksDB has written the sequence number into the header
    uint64_t seq = 0;
    const std::string& data = batch.Data();
    for (int i = 7; i >= 0; i--) seq = seq << 8 | static_cast<unsigned char>(data[i]);
    return static_cast<int64_t>(seq);
  }
  bk::set_err(err, s);
  return -1;
}

struct bk_iter {
  std::string lower, upper;
  Slice lower_slice, upper_slice;
  std::unique_ptr<Iterator> it;
  bool reverse, keys_only;
  size_t strip, vmax;
  std::string parts;  // bounds of plen bytes: lower and upper of each part in turn
  size_t nparts, plen, part;
  double seen, covered;  // entries in parts so far, and the share of the key space that those parts cover

  // valid moves on to the next entry that is in a part and returns false at the end.
  bool valid() { return it->Valid() && (nparts == 0 || settle()); }
  void step() {
    if (reverse)
      it->Prev();
    else
      it->Next();
  }

 private:
  const char* bound(size_t i) const { return &parts[i * plen]; }
  bool settle();
  bool near(const Slice& k) const;
};

// seek_cost is the cost of a seek in steps.
static const int seek_cost = 12;

// distance returns the distance of two keys in the key space, judged by their first eight bytes.
static double distance(const char* k, const char* to, size_t n) {
  uint64_t a = 0, b = 0;
  memcpy(&a, k, n < sizeof a ? n : sizeof a);
  memcpy(&b, to, n < sizeof b ? n : sizeof b);
  return static_cast<double>(__builtin_bswap64(b) - __builtin_bswap64(a));
}

// near estimates whether stepping to the next part is cheaper than a seek: whether few entries lie before it, assuming
// the density of the parts so far.
bool bk_iter::near(const Slice& k) const {
  return distance(k.data(), bound(2 * part), plen) * (seen + 1) <= covered * seek_cost;
}

bool bk_iter::settle() {
  for (int steps = 0; it->Valid();) {
    Slice k = it->key();
    k.remove_prefix(strip < k.size() ? strip : k.size());
    if (k.size() < plen) return true;
    for (; part < nparts && memcmp(k.data(), bound(2 * part + 1), plen) >= 0; part++)
      covered += distance(bound(2 * part), bound(2 * part + 1), plen);
    if (part == nparts) return false;
    if (memcmp(k.data(), bound(2 * part), plen) >= 0) {
      seen++;
      return true;
    }
    // If the estimate was wrong, the wasted steps cost at most as much as the seek.
    if (steps < seek_cost && (steps > 0 || near(k))) {
      steps++;
      it->Next();
      continue;
    }
    it->Seek(lower.substr(0, strip).append(bound(2 * part), plen));
    steps = 0;
  }
  return false;
}

static int64_t fill(bk_iter* h, char* buf, size_t cap, int maxn, int* n_out) {
  Iterator* it = h->it.get();
  size_t off = 0;
  int n = 0;
  while (n < maxn && h->valid()) {
    Slice k = it->key();
    if (h->strip) k.remove_prefix(h->strip < k.size() ? h->strip : k.size());
    uint32_t kl = static_cast<uint32_t>(k.size()), vl = 0;
    Slice v;
    if (!h->keys_only) {
      v = it->value();
      vl = static_cast<uint32_t>(h->vmax && v.size() > h->vmax ? h->vmax : v.size());
    }
    size_t need = 8 + static_cast<size_t>(kl) + vl;
    if (off + need > cap) {
      if (n == 0) {
        *n_out = -1;
        return static_cast<int64_t>(need);
      }
      break;
    }
    memcpy(buf + off, &kl, 4);
    memcpy(buf + off + 4, &vl, 4);
    memcpy(buf + off + 8, k.data(), kl);
    if (vl) memcpy(buf + off + 8 + kl, v.data(), vl);
    off += need;
    n++;
    h->step();
  }
  *n_out = n;
  return static_cast<int64_t>(off);
}

static uint64_t skip_entries(bk_iter* h, uint64_t n) {
  uint64_t done = 0;
  while (done < n && h->valid()) {
    h->step();
    done++;
  }
  return done;
}

bk_iter* bk_iter_open(void* dbp, void* cfp, void* snapshot, const char* lower, size_t llen, const char* upper,
                      size_t ulen, uint32_t flags, size_t strip, const char* parts, size_t nparts, size_t plen,
                      size_t vmax, uint64_t max_skip, uint64_t skip,
                      char* buf, size_t cap, int maxn, int* n_out, int64_t* bytes, char** err) {
  std::unique_ptr<bk_iter> h(new bk_iter());
  h->reverse = flags & BK_REVERSE;
  h->keys_only = flags & BK_KEYS_ONLY;
  h->strip = strip;
  h->vmax = vmax;
  h->nparts = nparts;
  h->plen = plen;
  h->part = 0;
  h->seen = h->covered = 0;
  if (nparts) h->parts.assign(parts, 2 * nparts * plen);
  ReadOptions ro;
  ro.snapshot = bk::snap(snapshot);
  ro.fill_cache = !(flags & BK_NO_FILL);
  ro.async_io = flags & BK_ASYNC;
  // From the end of a range RocksDB would ask the filters for the collection behind it.
  ro.total_order_seek = h->reverse || !(flags & BK_COLLECTION);
  ro.max_skippable_internal_keys = max_skip;
  if (llen) {
    h->lower.assign(lower, llen);
    h->lower_slice = h->lower;
    ro.iterate_lower_bound = &h->lower_slice;
  }
  if (ulen) {
    h->upper.assign(upper, ulen);
    h->upper_slice = h->upper;
    ro.iterate_upper_bound = &h->upper_slice;
  }
  h->it.reset(bk::db(dbp)->NewIterator(ro, bk::cf(cfp)));
  if (h->reverse)
    h->it->SeekToLast();
  else if (llen)
    h->it->Seek(h->lower_slice);
  else
    h->it->SeekToFirst();
  if (skip) skip_entries(h.get(), skip);
  *bytes = fill(h.get(), buf, cap, maxn, n_out);
  if (*n_out >= 0 && !h->valid()) {
    bk::set_err(err, h->it->status());
    return nullptr;
  }
  return h.release();
}

int64_t bk_iter_fill(bk_iter* h, char* buf, size_t cap, int maxn, int* n_out, int* done, char** err) {
  int64_t bytes = fill(h, buf, cap, maxn, n_out);
  *done = *n_out >= 0 && !h->valid();
  if (*done) bk::set_err(err, h->it->status());
  return bytes;
}

uint64_t bk_iter_skip(bk_iter* h, uint64_t n, char** err) {
  uint64_t done = skip_entries(h, n);
  if (!h->it->Valid()) bk::set_err(err, h->it->status());
  return done;
}

void bk_iter_close(bk_iter* h) { delete h; }

uint64_t bk_snapshot_sequence(void* snapshot) { return bk::snap(snapshot)->GetSequenceNumber(); }

uint64_t bk_count(void* dbp, void* cfp, void* snapshot, const char* lower, size_t llen, const char* upper, size_t ulen,
                  uint64_t max, int reverse, char** err) {
  ReadOptions ro;
  ro.snapshot = bk::snap(snapshot);
  ro.total_order_seek = true;
  Slice lo(lower, llen), hi(upper, ulen);
  if (llen) ro.iterate_lower_bound = &lo;
  if (ulen) ro.iterate_upper_bound = &hi;
  std::unique_ptr<Iterator> it(bk::db(dbp)->NewIterator(ro, bk::cf(cfp)));
  uint64_t n = 0;
  if (reverse) {
    for (it->SeekToLast(); it->Valid() && (max == 0 || n < max); it->Prev()) n++;
  } else {
    if (llen)
      it->Seek(lo);
    else
      it->SeekToFirst();
    for (; it->Valid() && (max == 0 || n < max); it->Next()) n++;
  }
  bk::set_err(err, it->status());
  return n;
}

}  // extern "C"
