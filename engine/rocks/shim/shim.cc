// The one translation unit of the shim: RocksDB's headers take three seconds to compile, and are compiled once. The
// parts are headers by name, because Go's build cache knows nothing of other files that a .cc file includes, and would
// compile a .cc file by itself.
#include "build.hpp"
#include "cache.hpp"
#include "compaction.hpp"
#include "crc32c.hpp"
#include "data.hpp"
#include "log.hpp"
#include "memtable.hpp"
#include "options.hpp"
#include "parts.hpp"
#include "perf.hpp"
#include "sst.hpp"
#include "table.hpp"
