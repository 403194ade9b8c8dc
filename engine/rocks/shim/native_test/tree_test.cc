// The memtable's tree (memtable_tree.h) and its memory (memtable_slabs.h) against a model, and with readers beside the
// writer. Built with AddressSanitizer and with ThreadSanitizer (make asan, make tsan); nothing of RocksDB is linked.
//
// Every entry is an allocation of its own with exactly its size, so that a byte too many is seen.
#include "../memtable_tree.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

using bk::Blocks;
using bk::SlabPool;
using bk::Tree;
using bk::TreeKey;

namespace {

constexpr size_t kSlabBuffers = 16 << 20;  // write buffers whose memtables take slabs
constexpr size_t kSmallBuffers = 1 << 16;  // and such whose memtables take blocks from malloc

// Entries makes entries as MemTable::Add encodes them, and owns them.
class Entries {
 public:
  const char* make(const std::string& user, uint64_t tag, const std::string& value) {
    std::string e;
    varint(&e, static_cast<uint32_t>(user.size() + 8));
    e += user;
    e.append(reinterpret_cast<const char*>(&tag), 8);
    varint(&e, static_cast<uint32_t>(value.size()));
    e += value;
    std::unique_ptr<char[]> p(new char[e.size()]);
    memcpy(p.get(), e.data(), e.size());
    all_.push_back(std::move(p));
    return all_.back().get();
  }

 private:
  static void varint(std::string* s, uint32_t v) {
    for (; v >= 0x80; v >>= 7) s->push_back(static_cast<char>(v | 0x80));
    s->push_back(static_cast<char>(v));
  }
  std::vector<std::unique_ptr<char[]>> all_;
};

struct Order {
  using Key = std::pair<std::string, uint64_t>;
  bool operator()(const Key& a, const Key& b) const {
    int c = a.first.compare(b.first);
    return c != 0 ? c < 0 : a.second > b.second;
  }
};
using Model = std::map<Order::Key, const char*, Order>;

// Shapes of user keys that take different ways through the tree.
std::string user_key(int shape, Random* r, int i) {
  char buf[32];
  switch (shape) {
    case 0: return std::string(buf, snprintf(buf, sizeof buf, "key:%06d", int(r->below(3000))));
    case 1: return std::string(buf, snprintf(buf, sizeof buf, "list%08d", i));
    case 2: return std::string(buf, snprintf(buf, sizeof buf, "list%08d", 10000000 - i));
    case 3: return std::string(1, char('a' + r->below(3)));
    case 4: return std::string(r->below(200), '\0');
    case 5: return std::string(300, 'x') + char(r->below(256)) + char(r->below(256));
    default: {  // some are longer than a slab's block may be
      size_t n = r->below(500) == 0 ? 70000 + r->below(3000000) : r->below(20);
      std::string k(n, 0);
      for (size_t j = 0; j < std::min<size_t>(n, 24); j++) k[j] = char(r->below(2) * 255);
      return k;
    }
  }
}
constexpr int kShapes = 7;

TreeKey as_key(std::string* room, const Order::Key& k) {
  *room = k.first;
  room->append(reinterpret_cast<const char*>(&k.second), 8);
  return TreeKey::internal(room->data(), room->size());
}

// compare walks through the tree in both directions and seeks, and compares with the model.
void compare(const Tree& tree, const Model& model, Random* r, int shape) {
  Tree::Copy c;
  tree.seek(nullptr, false, &c);
  auto m = model.begin();
  for (;;) {
    while (c.pos < c.n) {
      CHECK(m != model.end() && c.key[c.pos] == m->second, "shape %d, forward", shape);
      ++m;
      c.pos++;
    }
    if (!tree.forward(&c)) break;
  }
  CHECK(m == model.end(), "shape %d: the end comes too early", shape);
  tree.last(&c);
  auto back = model.rbegin();
  for (;;) {
    while (c.pos > 0) {
      c.pos--;
      CHECK(back != model.rend() && c.key[c.pos] == back->second, "shape %d, backward", shape);
      ++back;
    }
    if (!tree.backward(&c)) break;
  }
  CHECK(back == model.rend(), "shape %d: the beginning comes too early", shape);
  std::string a, b;
  for (int i = 0; i < 300; i++) {
    Order::Key k{user_key(shape, r, int(r->below(5000))), r->below(6000) << 8 | 1};
    TreeKey key = as_key(&a, k);
    bool tail = r->below(2) == 0;
    tree.seek(&key, tail, &c);
    while (c.pos >= c.n && tree.forward(&c)) {
    }
    auto at = model.lower_bound(k);
    const char* got = c.pos < c.n ? c.key[c.pos] : nullptr;
    CHECK(got == (at == model.end() ? nullptr : at->second), "shape %d, seek", shape);
    Order::Key to{user_key(shape, r, int(r->below(5000))), r->below(6000) << 8 | 1};
    if (Order()(to, k)) continue;
    TreeKey upper = as_key(&b, to);
    auto n = std::distance(at, model.lower_bound(to));
    uint64_t counted = tree.count(key, upper);
    if (n < Tree::kSlots)
      CHECK(counted == uint64_t(n), "shape %d: %ld entries counted as %ld", shape, long(n), long(counted));
  }
}

void against_model(size_t write_buffer) {
  auto pool = SlabPool::shared(8 * SlabPool::kSlab);
  for (int round = 0; round < 2; round++) {  // the second one gets the memory of the first
    for (int shape = 0; shape < kShapes; shape++) {
      Random r(shape + 1);
      Entries entries;
      Blocks blocks(pool, write_buffer);
      Tree tree(&blocks);
      Model model;
      for (int i = 0; i < 5000; i++) {
        uint64_t sequence = i + 1;
        if (r.below(50) == 0) sequence = 100000 + (round ? i : 5000 - i);  // not ascending, and never twice
        Order::Key k{user_key(shape, &r, i), sequence << 8 | 1};
        const char* e = entries.make(k.first, k.second, std::string(r.below(10), 'v'));
        tree.insert(e);
        model[k] = e;
        if (i == 20 || i == 1000) compare(tree, model, &r, shape);
      }
      compare(tree, model, &r, shape);
    }
  }
}

// readers_beside_writer: everything that was written before a scan began is in it, once and in order.
void readers_beside_writer(size_t write_buffer, int n) {
  auto pool = SlabPool::shared(8 * SlabPool::kSlab);
  Blocks blocks(pool, write_buffer);
  Tree tree(&blocks);
  std::atomic<int> written{0};
  auto key = [](int i) {
    uint32_t v = uint32_t(i) * 2654435761u;  // a permutation, so that inserts go everywhere
    std::string k = "key:00000000";  // longer than a head: at the edges of the tree entries are looked at
    for (int s = 24; s >= 0; s -= 8) k.push_back(char(v >> s));
    if (i % 97 == 0) k += std::string(1 + i % 5000, 'x');
    return k;
  };
  auto scan = [&](bool forward) {
    for (bool done = false; !done;) {
      int before = written.load(std::memory_order_acquire), count = 0;
      done = before == n;
      Tree::Copy c;
      const char* last = nullptr;
      if (forward) tree.seek(nullptr, false, &c); else tree.last(&c);
      do {
        for (int i = 0; i < c.n; i++, count++) {
          const char* e = c.key[forward ? i : c.n - 1 - i];
          if (last) {
            int order = TreeKey::entry(last).compare(TreeKey::entry(e));
            CHECK(forward ? order < 0 : order > 0, "out of order after %d entries", count);
          }
          last = e;
        }
      } while (forward ? tree.forward(&c) : tree.backward(&c));
      CHECK(count >= before, "%d entries, %d had been written", count, before);
    }
  };
  auto look_up = [&](uint64_t seed) {
    Random r(seed);
    for (int before = 0; before < n; before = written.load(std::memory_order_acquire)) {
      if (before == 0) continue;
      int i = int(r.below(before));
      std::string room;
      TreeKey k = as_key(&room, {key(i), uint64_t(i + 1) << 8 | 1});
      Tree::Copy c;
      tree.seek(&k, r.below(2) == 0, &c);
      while (c.pos >= c.n) CHECK(tree.forward(&c), "key %d of %d is not there", i, before);
      CHECK(TreeKey::entry(c.key[c.pos]).compare(k) == 0, "key %d of %d is another", i, before);
      std::string end;
      TreeKey to = as_key(&end, {"kez", 0});
      tree.count(k, to);
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(scan, true);
  threads.emplace_back(scan, false);
  threads.emplace_back(look_up, 1);
  threads.emplace_back(look_up, 2);
  Entries entries;
  for (int i = 0; i < n; i++) {
    tree.insert(entries.make(key(i), uint64_t(i + 1) << 8 | 1, "v"));
    written.store(i + 1, std::memory_order_release);
  }
  for (auto& t : threads) t.join();
}

// slabs: threads that make and drop memtables share a pool.
void slabs() {
  auto pool = SlabPool::shared(8 * SlabPool::kSlab);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      Random r(t);
      for (int i = 0; i < 20; i++) {
        Blocks b(pool, r.below(2) ? kSlabBuffers : kSmallBuffers);
        for (int j = 0; j < 200; j++) {
          size_t n = r.below(100) == 0 ? 1 + r.below(3 << 20) : 1 + r.below(50000), align = size_t(1) << r.below(7);
          char* p = b.take(n, align);
          CHECK(reinterpret_cast<uintptr_t>(p) % align == 0, "%p is not aligned to %zu", p, align);
          p[0] = p[n - 1] = char(j);
        }
        SlabPool::usage();
      }
    });
  }
  for (auto& t : threads) t.join();
}

}  // namespace

int main() {
  // The pool lives as long as someone owns it.
  auto pool = SlabPool::shared(0);
  for (size_t write_buffer : {kSlabBuffers, kSmallBuffers}) {
    against_model(write_buffer);
    readers_beside_writer(write_buffer, 8000);
  }
  slabs();
  CHECK(SlabPool::usage().used == 0, "%zu bytes of slabs are still in use", SlabPool::usage().used);
  puts("tree: ok");
}
