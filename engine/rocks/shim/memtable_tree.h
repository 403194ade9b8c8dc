// The ordered structure of the memtable: a B+-tree over the entries that RocksDB adds to a memtable.
//
// Why not RocksDB's skip list: it finds the place of a random key through some twenty dependent cache misses, which is
// most of the cost of a write, and each step backwards is a search from the top. A tree node stores the eight bytes in
// which its keys first differ contiguously, so that a search misses the cache about once a level, and leaves are linked
// in both directions.
//
// Concurrency: one writer at a time (RocksDB's write leader; concurrent memtable writes are off) and any number of
// lock-free readers. Entries and nodes are never moved or freed while the tree lives. A writer makes the sequence lock
// odd while it changes nodes. A reader copies what it needs from a node, and starts again if the lock was odd or has
// changed. What it reads meanwhile may be inconsistent but is always memory of the tree, so it only has to handle null
// pointers. Pointers to entries and nodes are stored with release and loaded with acquire, so that their targets are
// visible.
//
// Entries have the encoding of MemTable::Add: varint32 length of the internal key, user key, 8 bytes of sequence number
// and type (little-endian), then the value. Order: user key bytewise, then newest first.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <type_traits>

#include "memtable_slabs.h"

namespace bk {

// TreeKey is a decoded internal key.
struct TreeKey {
  const char* data;
  uint32_t len;  // length of the user key
  uint64_t tag;  // sequence number and type

  static TreeKey entry(const char* e) {
    const auto* p = reinterpret_cast<const unsigned char*>(e);
    uint32_t n = *p++;
    if (n & 0x80) {
      n &= 0x7f;
      for (int shift = 7;; shift += 7) {
        uint32_t b = *p++;
        n |= (b & 0x7f) << shift;
        if (!(b & 0x80)) break;
      }
    }
    return internal(reinterpret_cast<const char*>(p), n);
  }
  static TreeKey internal(const char* p, size_t n) {
    TreeKey k;
    k.data = p;
    k.len = static_cast<uint32_t>(n - 8);
    memcpy(&k.tag, p + k.len, 8);
    return k;
  }
  int compare(const TreeKey& o) const {
    int c = memcmp(data, o.data, len < o.len ? len : o.len);
    if (c != 0) return c;
    if (len != o.len) return len < o.len ? -1 : 1;
    if (tag != o.tag) return tag > o.tag ? -1 : 1;
    return 0;
  }
  // head returns the eight bytes after the first skip bytes as a number that sorts as they do; bytes beyond the end
  // count as zeros.
  uint64_t head(uint32_t skip) const {
    if (skip + 8 <= len) {
      uint64_t h;
      memcpy(&h, data + skip, 8);
      return __builtin_bswap64(h);
    }
    uint64_t h = 0;
    for (uint32_t i = skip; i < len; i++) {
      h |= static_cast<uint64_t>(static_cast<unsigned char>(data[i])) << (56 - 8 * (i - skip));
    }
    return h;
  }
};

class Tree {
 public:
  static constexpr int kSlots = 64;   // entries of a leaf, separators of an inner node
  static constexpr int kDepth = 16;   // more than any memory can fill
  static constexpr uint32_t kMixed = 0xffffffff;

  struct Node {
    std::atomic<int32_t> n;           // slots in use
    std::atomic<uint32_t> skip;       // leading bytes that all keys of the node share and heads omit
    std::atomic<bool> leaf;           // never changes
    // Only the writer reads these three.
    uint32_t len;                     // of the user key of all entries, kMixed when they differ
    const char* low;                  // bounds of the node's keys: [low, high); null = no bound
    const char* high;
    std::atomic<Node*> prev, next;    // of a leaf: the neighbours
    std::atomic<uint64_t> head[kSlots];
    std::atomic<const char*> key[kSlots];  // entries of a leaf; first entry below child[i + 1] of an inner node
  };
  struct Inner : Node {
    std::atomic<Node*> child[kSlots + 1];
  };

  // Copy is a reader's copy of a leaf.
  struct Copy {
    Node* leaf = nullptr;
    Node* next = nullptr;
    int n = 0;
    int pos = 0;
    const char* key[kSlots];
  };

  // The nodes are allocated from blocks, which must outlive the tree.
  explicit Tree(Blocks* blocks) : blocks_(blocks), root_(node<Node>(true)) { first_ = root_.load(); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // insert adds an entry. Writer only.
  void insert(const char* e) {
    const TreeKey k = TreeKey::entry(e);
    // RocksDB writes ascending sequence numbers, so an entry is the newest of its user key. But RocksDB does not
    // guarantee that.
    const bool newest = k.tag > newest_;
    if (newest) newest_ = k.tag;
    entries_.store(entries_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    Inner* path[kDepth];
    int at[kDepth], depth = 0;
    Node* x = root_.load(std::memory_order_acquire);
    while (!x->leaf.load(std::memory_order_relaxed)) {
      int i = newest && alike(x, k) ? below(x, k) : search(x, k, true);
      path[depth] = static_cast<Inner*>(x);
      at[depth++] = i;
      x = path[depth - 1]->child[i].load(std::memory_order_acquire);
    }
    fetch(x);
    int pos = newest && alike(x, k) ? below(x, k) : search(x, k, false);
    if (x->n.load(std::memory_order_relaxed) < kSlots) {
      Change change(this);
      place(x, pos, e, k);
      return;
    }
    split_leaf(x, pos, e, k, path, at, depth);
  }

  // seek copies the leaf that contains the first entry at or after k (k null: the first of all). With tail_only it
  // omits the entries before that one. pos is the entry's index, n if the leaf ends before it.
  void seek(const TreeKey* k, bool tail_only, Copy* out) const {
    for (;; pause()) {
      uint64_t s = seq_.load(std::memory_order_acquire);
      if (s & 1) continue;
      Node* x = k ? find(*k) : first_;
      if (!x) continue;
      int pos = k ? search(x, *k, false) : 0;
      if (pos < 0 || !copy(x, tail_only ? pos : 0, out)) continue;
      out->pos = tail_only ? 0 : pos;
      if (unchanged(s)) return;
    }
  }

  // last copies the last leaf.
  void last(Copy* out) const {
    for (;; pause()) {
      uint64_t s = seq_.load(std::memory_order_acquire);
      if (s & 1) continue;
      Node* x = root_.load(std::memory_order_acquire);
      while (x && !x->leaf.load(std::memory_order_relaxed)) {
        int n = x->n.load(std::memory_order_relaxed);
        x = static_cast<Inner*>(x)->child[n].load(std::memory_order_acquire);
      }
      if (!x || !copy(x, 0, out)) continue;
      out->pos = out->n;
      if (unchanged(s)) return;
    }
  }

  // forward copies the leaf after the one in c, as linked when c was copied: entries that were added later are newer
  // than any reader with such a copy. False at the end.
  bool forward(Copy* c) const {
    Node* x = c->next;
    if (!x) return false;
    for (;; pause()) {
      uint64_t s = seq_.load(std::memory_order_acquire);
      if ((s & 1) || !copy(x, 0, c)) continue;
      c->pos = 0;
      if (unchanged(s)) return true;
    }
  }

  // backward copies the leaf before the one in c. If a split happened since c was copied, the lower half stayed in the
  // same node, so the current predecessor lies below everything in c. False at the beginning.
  bool backward(Copy* c) const {
    Node* leaf = c->leaf;
    for (;; pause()) {
      uint64_t s = seq_.load(std::memory_order_acquire);
      if (s & 1) continue;
      Node* x = leaf->prev.load(std::memory_order_acquire);
      if (x && !copy(x, 0, c)) continue;
      if (!unchanged(s)) continue;
      if (!x) return false;
      c->pos = c->n;
      return true;
    }
  }

  // count returns the approximate number of entries in [from, to): the exact number if they fill few leaves, otherwise
  // an estimate that assumes equally full nodes.
  uint64_t count(const TreeKey& from, const TreeKey& to) const {
    constexpr int kExact = 4;  // leaves
    Copy c;
    seek(&from, true, &c);
    uint64_t total = 0;
    for (int leaf = 0; leaf < kExact; leaf++) {
      if (c.n > 0 && TreeKey::entry(c.key[c.n - 1]).compare(to) >= 0) {
        int i = 0;
        while (TreeKey::entry(c.key[i]).compare(to) < 0) i++;
        return total + i;
      }
      total += c.n;
      if (!forward(&c)) return total;
    }
    const double part = place_of(to) - place_of(from);
    const double entries = static_cast<double>(entries_.load(std::memory_order_relaxed));
    return std::max(total, static_cast<uint64_t>(std::max(part, 0.0) * entries));
  }

 private:
  // place_of returns the fraction of the entries that come before k, from 0 to 1. It assumes that all leaves are
  // equally full and that the nodes above them have equally many children, but examines the few nodes above those.
  double place_of(const TreeKey& k) const {
    for (;; pause()) {
      uint64_t s = seq_.load(std::memory_order_acquire);
      if (s & 1) continue;
      double before = 0, width = 1;
      Node* x = root_.load(std::memory_order_acquire);
      int i = -1;
      while (x && (i = search(x, k, !x->leaf.load(std::memory_order_relaxed))) >= 0) {
        int n = x->n.load(std::memory_order_relaxed);
        if (x->leaf.load(std::memory_order_relaxed)) {
          if (n > 0) before += width * i / n;
          break;
        }
        const auto* inner = static_cast<Inner*>(x);
        int left = 0, own = 0, all = 0;
        x = nullptr;
        for (int j = 0; j <= n && j <= kSlots; j++) {
          Node* child = inner->child[j].load(std::memory_order_acquire);
          if (!child) break;
          int weight = child->leaf.load(std::memory_order_relaxed) ? 1 : child->n.load(std::memory_order_relaxed) + 1;
          if (j < i) left += weight;
          if (j == i) own = weight, x = child;
          all += weight;
          if (child->leaf.load(std::memory_order_relaxed)) {
            left = i, own = 1, all = n + 1, x = inner->child[i].load(std::memory_order_acquire);
            break;
          }
        }
        if (all == 0) break;
        before += width * left / all;
        width *= static_cast<double>(own) / all;
      }
      if (x && i >= 0 && unchanged(s)) return before;
    }
  }

  // Change keeps readers out while it exists.
  class Change {
   public:
    explicit Change(Tree* t) : seq_(t->seq_), s_(seq_.load(std::memory_order_relaxed)) {
      seq_.store(s_ + 1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);
    }
    ~Change() { seq_.store(s_ + 2, std::memory_order_release); }

   private:
    std::atomic<uint64_t>& seq_;
    uint64_t s_;
  };

  bool unchanged(uint64_t s) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return seq_.load(std::memory_order_relaxed) == s;
  }

  // pause waits a moment for the writer, which may have lost its CPU.
  static void pause() {
    static thread_local unsigned turn;
    if (++turn % 32 == 0)
      std::this_thread::yield();
    else
      relax();
  }
  // relax tells the CPU that this is a spin loop.
  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  // search returns the number of keys of the node that are less than k, with upper: not greater than k. It returns -1
  // when a reader meets a slot that is being filled.
  static int search(const Node* x, const TreeKey& k, bool upper) {
    int lo = 0, hi = x->n.load(std::memory_order_relaxed);
    if (hi > kSlots) return -1;
    const uint64_t h = k.head(x->skip.load(std::memory_order_relaxed));
    while (lo < hi) {
      int mid = (lo + hi) / 2;
      uint64_t m = x->head[mid].load(std::memory_order_relaxed);
      bool right;
      if (m != h) {
        right = m < h;
      } else {
        const char* e = x->key[mid].load(std::memory_order_acquire);
        if (!e) return -1;
        int c = TreeKey::entry(e).compare(k);
        right = c < 0 || (upper && c == 0);
      }
      if (right)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo;
  }

  // fetch starts to load all of a leaf, most of which an insertion needs, instead of one cache line after the other:
  // 310 ns an insertion instead of 390 (100,000 random keys, entries of 70 bytes).
  static void fetch(const Node* x) {
    const char* p = reinterpret_cast<const char*>(x);
    for (size_t i = 0; i < sizeof(Node); i += 64) __builtin_prefetch(p + i, 1);
  }

  // alike reports whether the user keys of the node and of k are equal whenever their heads are: all have one length,
  // and the heads cover the rest of it.
  static bool alike(const Node* x, const TreeKey& k) {
    return x->len == k.len && k.len <= x->skip.load(std::memory_order_relaxed) + 8;
  }

  // below is search for the newest entry of its user key in a node whose keys are alike: the entry comes before all
  // entries with an equal head. So it need not read the memory of those keys, which is probably not in a cache.
  static int below(const Node* x, const TreeKey& k) {
    int lo = 0, hi = x->n.load(std::memory_order_relaxed);
    const uint64_t h = k.head(x->skip.load(std::memory_order_relaxed));
    while (lo < hi) {
      int mid = (lo + hi) / 2;
      if (x->head[mid].load(std::memory_order_relaxed) < h)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo;
  }

  // find returns the leaf for k, null if the reader must start again.
  Node* find(const TreeKey& k) const {
    Node* x = root_.load(std::memory_order_acquire);
    while (x && !x->leaf.load(std::memory_order_relaxed)) {
      int i = search(x, k, true);
      if (i < 0) return nullptr;
      x = static_cast<Inner*>(x)->child[i].load(std::memory_order_acquire);
    }
    return x;
  }

  static bool copy(Node* x, int from, Copy* out) {
    int n = x->n.load(std::memory_order_relaxed);
    if (n > kSlots || from > n) return false;
    for (int i = from; i < n; i++) {
      const char* e = x->key[i].load(std::memory_order_acquire);
      if (!e) return false;
      out->key[i - from] = e;
    }
    out->n = n - from;
    out->leaf = x;
    out->next = x->next.load(std::memory_order_acquire);
    return true;
  }

  // node returns a new empty node.
  template <class T>
  T* node(bool leaf) {
    static_assert(std::is_trivially_destructible<T>::value, "nodes are never destroyed");
    char* p = blocks_->take(sizeof(T), 64);
    memset(p, 0, sizeof(T));
    T* x = new (p) T;
    // The memory may have belonged to another memtable. Readers see these values, because the node is published by a
    // release store.
    x->leaf.store(leaf, std::memory_order_relaxed);
    return x;
  }

  // place makes room at slot i and stores entry e, whose key is k.
  static void place(Node* x, int i, const char* e, const TreeKey& k) {
    int n = x->n.load(std::memory_order_relaxed);
    x->len = n == 0 || x->len == k.len ? k.len : kMixed;
    for (int j = n; j > i; j--) {
      x->key[j].store(x->key[j - 1].load(std::memory_order_acquire), std::memory_order_release);
      x->head[j].store(x->head[j - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    x->key[i].store(e, std::memory_order_release);
    x->head[i].store(k.head(x->skip.load(std::memory_order_relaxed)), std::memory_order_relaxed);
    x->n.store(n + 1, std::memory_order_relaxed);
  }

  // bound sets the node's bounds and, when its keys then share more bytes than before, recomputes the heads.
  static void bound(Node* x, const char* low, const char* high) {
    x->low = low;
    x->high = high;
    uint32_t skip = 0;
    if (low && high) {
      TreeKey a = TreeKey::entry(low), b = TreeKey::entry(high);
      uint32_t most = a.len < b.len ? a.len : b.len;
      while (skip < most && a.data[skip] == b.data[skip]) skip++;
    }
    if (skip == x->skip.load(std::memory_order_relaxed)) return;
    x->skip.store(skip, std::memory_order_relaxed);
    for (int i = 0, n = x->n.load(std::memory_order_relaxed); i < n; i++) {
      uint64_t h = TreeKey::entry(x->key[i].load(std::memory_order_acquire)).head(skip);
      x->head[i].store(h, std::memory_order_relaxed);
    }
  }

  // move copies the keys from slot i on into a node that no reader knows yet.
  static void move(const Node* x, int i, Node* to) {
    int n = x->n.load(std::memory_order_relaxed);
    for (int j = i; j < n; j++) {
      to->key[j - i].store(x->key[j].load(std::memory_order_acquire), std::memory_order_release);
      to->head[j - i].store(x->head[j].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    to->n.store(n - i, std::memory_order_relaxed);
    to->len = x->len;
    to->skip.store(x->skip.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

  // split_leaf splits a full leaf and inserts the entry. Runs of ascending or descending keys leave full leaves behind.
  void split_leaf(Node* x, int pos, const char* e, const TreeKey& k, Inner** path, int* at, int depth) {
    Node* r = node<Node>(true);
    int cut = pos == kSlots ? kSlots : pos == 0 ? 0 : kSlots / 2;
    move(x, cut, r);
    bool right = pos > cut || cut == kSlots;
    if (right) place(r, pos - cut, e, k);
    const char* sep = r->key[0].load(std::memory_order_acquire);
    bound(r, sep, x->high);
    r->next.store(x->next.load(std::memory_order_acquire), std::memory_order_release);
    r->prev.store(x, std::memory_order_release);

    Change change(this);
    x->n.store(cut, std::memory_order_relaxed);
    bound(x, x->low, sep);
    if (!right) place(x, pos, e, k);
    if (Node* after = r->next.load(std::memory_order_acquire)) after->prev.store(r, std::memory_order_release);
    x->next.store(r, std::memory_order_release);
    add_child(x, sep, r, path, at, depth);
  }

  // add_child adds r, whose first key is sep, as the right neighbour of x to x's parent.
  void add_child(Node* x, const char* sep, Node* r, Inner** path, int* at, int depth) {
    while (depth-- > 0) {
      Inner* p = path[depth];
      int i = at[depth];
      if (p->n.load(std::memory_order_relaxed) < kSlots) {
        place_child(p, i, sep, r);
        return;
      }
      // The middle separator moves up; the part to its right moves to the new node.
      Inner* q = node<Inner>(false);
      constexpr int cut = kSlots / 2;
      const char* up = p->key[cut].load(std::memory_order_acquire);
      move(p, cut + 1, q);
      for (int j = cut + 1; j <= kSlots; j++)
        q->child[j - cut - 1].store(p->child[j].load(std::memory_order_acquire), std::memory_order_release);
      bound(q, up, p->high);
      p->n.store(cut, std::memory_order_relaxed);
      bound(p, p->low, up);
      if (i > cut)
        place_child(q, i - cut - 1, sep, r);
      else
        place_child(p, i, sep, r);
      x = p;
      sep = up;
      r = q;
    }
    Inner* top = node<Inner>(false);
    top->child[0].store(x, std::memory_order_release);
    place_child(top, 0, sep, r);
    root_.store(top, std::memory_order_release);
  }

  static void place_child(Inner* p, int i, const char* sep, Node* r) {
    for (int j = p->n.load(std::memory_order_relaxed); j > i; j--)
      p->child[j + 1].store(p->child[j].load(std::memory_order_acquire), std::memory_order_release);
    p->child[i + 1].store(r, std::memory_order_release);
    place(p, i, sep, TreeKey::entry(sep));
  }

  std::atomic<uint64_t> seq_{0};
  Blocks* const blocks_;  // the constructor calls node(), so it must come before root_
  std::atomic<Node*> root_;
  Node* first_;  // the leftmost leaf: splits never replace it
  uint64_t newest_ = 0;  // the highest tag; writer only
  std::atomic<uint64_t> entries_{0};
};

}  // namespace bk
