// RocksDB's info log (the file LOG) without RocksDB's file writer. That writer refuses to continue after a failed write
// and, built with assertions as in Debian's package, aborts the process at the second line that it cannot write: within
// seconds on a full disk. Here a line that cannot be written is lost.
#include <fcntl.h>
#include <rocksdb/env.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

#include "internal.h"

using namespace rocksdb;

extern "C" void bkGoEvent(uintptr_t handle, int kind, char* family, char* text, int code);

namespace {

constexpr size_t kMaxLine = 64 << 10;

class InfoLog : public Logger {
 public:
  InfoLog(const std::string& dir, size_t max_size, uintptr_t handle)
      : path_(dir + "/LOG"), max_size_(max_size), handle_(handle) {
    reopen();
  }
  ~InfoLog() override { Close(); }

  using Logger::Logv;
  void Logv(const char* format, va_list ap) override {
    timeval now;
    gettimeofday(&now, nullptr);
    tm t;
    localtime_r(&now.tv_sec, &t);
    char head[96];
    int n = snprintf(head, sizeof(head), "%04d/%02d/%02d-%02d:%02d:%02d.%06d %llu ", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday,
                     t.tm_hour, t.tm_min, t.tm_sec, static_cast<int>(now.tv_usec),
                     static_cast<unsigned long long>(Env::Default()->GetThreadID()));
    std::string line(head, n);
    va_list again;
    va_copy(again, ap);
    int len = vsnprintf(nullptr, 0, format, again);
    va_end(again);
    if (len < 0) return;
    size_t text = std::min(static_cast<size_t>(len), kMaxLine);
    line.resize(n + text + 1);  // vsnprintf appends a NUL
    vsnprintf(&line[n], text + 1, format, ap);
    line.back() = '\n';
    if (line[line.size() - 2] == '\n') line.pop_back();
    if (strstr(format, kDropping)) dropped(line.substr(n, line.size() - n - 1));
    std::lock_guard<std::mutex> l(mu_);
    if (fd_ < 0) return;
    ssize_t wrote = write(fd_, line.data(), line.size());
    if (wrote > 0 && (size_ += wrote) >= max_size_) reopen();
  }
  size_t GetLogFileSize() const override { return size_; }

 protected:
  Status CloseImpl() override {
    std::lock_guard<std::mutex> l(mu_);
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
    return Status::OK();
  }

 private:
  // Only this line says that RocksDB skips part of a write-ahead log at the start: "FILE: dropping N bytes; REASON".
  static constexpr const char* kDropping = "dropping %d bytes";
  void dropped(std::string text) const {
    size_t at = text.find("dropping ");
    int bytes = at == std::string::npos ? 0 : atoi(text.c_str() + at + strlen("dropping "));
    bkGoEvent(handle_, BK_EV_DROPPED, const_cast<char*>(""), &text[0], bytes);
  }
  // reopen renames the file to a name that RocksDB recognizes and deletes in time, and begins a new one.
  void reopen() {
    if (fd_ >= 0) close(fd_);
    timeval now;
    gettimeofday(&now, nullptr);
    rename(path_.c_str(), (path_ + ".old." + std::to_string(now.tv_sec * 1000000ull + now.tv_usec)).c_str());
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    size_ = 0;
  }
  std::string path_;
  size_t max_size_;
  uintptr_t handle_;
  std::mutex mu_;
  int fd_ = -1;
  std::atomic<size_t> size_{0};
};

}  // namespace

extern "C" void bk_options_set_info_log(void* o, const char* dir, size_t max_size, uintptr_t handle) {
  bk::opts(o).info_log = std::make_shared<InfoLog>(dir, max_size, handle);
}
