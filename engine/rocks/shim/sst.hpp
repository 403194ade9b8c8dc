// Table files made outside a database, and their ingestion.
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>

#include <map>
#include <string>
#include <vector>

#include "internal.h"

struct bk_sst {
  rocksdb::SstFileWriter w;
  bk_sst(const rocksdb::Options& o, rocksdb::ColumnFamilyHandle* cf) : w(rocksdb::EnvOptions(), o, cf) {}
};

extern "C" {

bk_sst* bk_sst_open(void* dbp, void* cfp, const char* path, char** err) {
  rocksdb::ColumnFamilyDescriptor d;
  if (bk::set_err(err, bk::cf(cfp)->GetDescriptor(&d))) return nullptr;
  rocksdb::Options o(bk::db(dbp)->GetDBOptions(), d.options);
  auto* w = new bk_sst(o, bk::cf(cfp));
  if (bk::set_err(err, w->w.Open(path))) {
    delete w;
    return nullptr;
  }
  return w;
}

int bk_sst_add(bk_sst* w, const char* arena, const uint64_t* at, size_t n, char** err) {
  for (size_t i = 0; i < n; i++) {
    const char* p = arena + at[i];
    uint32_t len[2];
    memcpy(len, p, sizeof len);
    p += sizeof len;
    if (bk::set_err(err, w->w.Put(rocksdb::Slice(p, len[0]), rocksdb::Slice(p + len[0], len[1])))) return 0;
  }
  return 1;
}

int bk_sst_finish(bk_sst* w, char** err) { return !bk::set_err(err, w->w.Finish()); }

void bk_sst_close(bk_sst* w) { delete w; }

int bk_sst_check(void* dbp, void* cfp, const char* path, char** err) {
  rocksdb::ColumnFamilyDescriptor d;
  if (bk::set_err(err, bk::cf(cfp)->GetDescriptor(&d))) return 0;
  rocksdb::SstFileReader r(rocksdb::Options(bk::db(dbp)->GetDBOptions(), d.options));
  rocksdb::Status s = r.Open(path);
  if (s.ok()) {
    auto p = r.GetTableProperties();
    if (p->comparator_name != d.options.comparator->Name())
      s = rocksdb::Status::InvalidArgument("its keys are in the order of comparator", p->comparator_name);
    else
      s = r.VerifyChecksum();
  }
  return !bk::set_err(err, s);
}

int bk_ingest(void* dbp, int n, void** cf, char** path, int move, char** err) {
  std::map<rocksdb::ColumnFamilyHandle*, rocksdb::IngestExternalFileArg> by;
  for (int i = 0; i < n; i++) {
    auto& a = by[bk::cf(cf[i])];
    a.column_family = bk::cf(cf[i]);
    a.external_files.emplace_back(path[i]);
    a.options.move_files = move != 0;
    // The sequence number of the records stays out of the file, and is in the MANIFEST only: RocksDB refuses to ingest
    // a file with a number, and a moved file is the caller's own until the end.
    a.options.write_global_seqno = false;
  }
  std::vector<rocksdb::IngestExternalFileArg> args;
  for (auto& a : by) args.push_back(std::move(a.second));
  return !bk::set_err(err, bk::db(dbp)->IngestExternalFiles(args));
}
}
