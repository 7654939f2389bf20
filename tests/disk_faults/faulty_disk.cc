// Preloaded into a program (LD_PRELOAD), this lets calls of the system fail for what lies in one
// folder. Environment variables say how; only this file and its test use them:
//   FAULTY_DISK_DIR      the folder, as an absolute path without links
//   FAULTY_DISK_FAULT    full: there is no room to write. fsync: what is written cannot be synced.
//                        read_only: nothing can be changed. no_locks: files cannot be locked.
//                        lose: nothing happens to the folder before it is synced. What a file has
//                        got is kept in memory until the file is synced, new names of files and new
//                        folders until the folder around them is. So it is lost with the process.
//                        Removals are not delayed.
//   FAULTY_DISK_SWITCH   the fault is on only while this file is there; not set: always
//   FAULTY_DISK_KILL_AT  the number of the operation on the folder, from 1, that kills the process
//                        before it has any effect
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

struct Config {
  const std::string dir = Variable("FAULTY_DISK_DIR");
  const std::string fault = Variable("FAULTY_DISK_FAULT");
  const std::string switch_path = Variable("FAULTY_DISK_SWITCH");
  const int64_t kill_at = atoll(Variable("FAULTY_DISK_KILL_AT").c_str());
};

// Never destroyed: threads may write until the process ends.
const Config& config() {
  static const Config& config = *new Config;
  return config;
}

// The system's function behind the one with this name here.
template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define REAL(name) Real(&::name, #name)

bool IsInFolder(const std::string& path) {
  const std::string& dir = config().dir;
  return !dir.empty() && path.compare(0, dir.size(), dir) == 0 &&
         (path.size() == dir.size() || path[dir.size()] == '/');
}

std::string PathOf(int fd) {
  char path[PATH_MAX];
  const ssize_t length =
      readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  return length < 0 ? "" : std::string(path, static_cast<size_t>(length));
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool IsOn(const char* fault) {
  const Config& c = config();
  return c.fault == fault && (c.switch_path.empty() || access(c.switch_path.c_str(), F_OK) == 0);
}

// Whether the operation, which is on the folder, must fail with `error`.
bool Fails(const char* fault, int error) {
  if (!IsOn(fault)) return false;
  errno = error;
  return true;
}

void CountOperation() {
  static std::atomic<int64_t> count{0};
  if (++count == config().kill_at) kill(getpid(), SIGKILL);
}

// What is not synced. Thread-safe.
class Unsynced {
 public:
  static Unsynced& Instance() {
    static Unsynced& instance = *new Unsynced;
    return instance;
  }

  void AddBytes(int fd, off_t offset, const void* bytes, size_t size) {
    const std::lock_guard<std::mutex> lock(mu_);
    bytes_[fd].push_back({offset, std::string(static_cast<const char*>(bytes), size)});
  }
  void DropBytes(int fd) {
    const std::lock_guard<std::mutex> lock(mu_);
    bytes_.erase(fd);
  }
  // `change` returns as the functions of the system do.
  void AddChange(const std::string& folder, std::function<int()> change) {
    const std::lock_guard<std::mutex> lock(mu_);
    changes_[folder].push_back(std::move(change));
  }
  // Lets everything happen to this open file or folder.
  bool Sync(int fd, const std::string& path) {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [offset, bytes] : bytes_[fd]) {
      const ssize_t written = REAL(pwrite)(fd, bytes.data(), bytes.size(), offset);
      if (written != static_cast<ssize_t>(bytes.size())) return false;
    }
    bytes_.erase(fd);
    for (const std::function<int()>& change : std::exchange(changes_[path], {})) {
      if (change() != 0) return false;
    }
    return true;
  }

 private:
  std::mutex mu_;
  std::map<int, std::vector<std::pair<off_t, std::string>>> bytes_;   // by descriptor
  std::map<std::string, std::vector<std::function<int()>>> changes_;  // by folder
};

int Sync(int fd, int (*real)(int)) {
  const std::string path = PathOf(fd);
  if (!IsInFolder(path)) return real(fd);
  CountOperation();
  if (Fails("fsync", EIO)) return -1;
  if (IsOn("lose") && !Unsynced::Instance().Sync(fd, path)) return -1;
  return 0;  // The disk takes its time, and what it does is not seen.
}

int Open(const char* path, int flags, mode_t mode, int (*real)(const char*, int, ...)) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (writes && IsInFolder(path)) {
    CountOperation();
    if (Fails("read_only", EROFS)) return -1;
  }
  return real(path, flags, mode);
}

int Remove(const char* path, int (*real)(const char*)) {
  if (IsInFolder(path)) {
    CountOperation();
    if (Fails("read_only", EROFS)) return -1;
  }
  return real(path);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Open(path, flags, mode, REAL(open));
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Open(path, flags, mode, REAL(open64));
}

int close(int fd) {
  if (config().fault == "lose") Unsynced::Instance().DropBytes(fd);
  return REAL(close)(fd);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (IsInFolder(PathOf(fd))) {
    CountOperation();
    if (Fails("full", ENOSPC)) return -1;
    if (IsOn("lose")) {
      Unsynced::Instance().AddBytes(fd, offset, bytes, size);
      return static_cast<ssize_t>(size);
    }
  }
  return REAL(pwrite)(fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  return pwrite(fd, bytes, size, offset);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  if (!IsInFolder(PathOf(fd))) return REAL(write)(fd, bytes, size);
  const off_t offset = lseek(fd, 0, SEEK_CUR);
  const ssize_t written = pwrite(fd, bytes, size, offset);
  if (written > 0) lseek(fd, offset + written, SEEK_SET);
  return written;
}

int fsync(int fd) { return Sync(fd, REAL(fsync)); }

int fdatasync(int fd) { return Sync(fd, REAL(fdatasync)); }

int rename(const char* from, const char* to) noexcept {
  if (IsInFolder(to)) {
    CountOperation();
    if (Fails("read_only", EROFS)) return -1;
    if (IsOn("lose")) {
      if (access(from, F_OK) != 0) return -1;
      Unsynced::Instance().AddChange(FolderOf(to),
                                     [from = std::string(from), to = std::string(to)] {
                                       return REAL(rename)(from.c_str(), to.c_str());
                                     });
      return 0;
    }
  }
  return REAL(rename)(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (IsInFolder(path)) {
    CountOperation();
    if (Fails("read_only", EROFS)) return -1;
    if (IsOn("lose") && access(path, F_OK) != 0) {
      Unsynced::Instance().AddChange(FolderOf(path), [path = std::string(path), mode] {
        return REAL(mkdir)(path.c_str(), mode);
      });
      return 0;
    }
  }
  return REAL(mkdir)(path, mode);
}

int unlink(const char* path) noexcept { return Remove(path, REAL(unlink)); }

int rmdir(const char* path) noexcept { return Remove(path, REAL(rmdir)); }

int remove(const char* path) noexcept { return Remove(path, REAL(remove)); }

int flock(int fd, int operation) noexcept {
  if (IsInFolder(PathOf(fd)) && Fails("no_locks", EOPNOTSUPP)) return -1;
  return REAL(flock)(fd, operation);
}

}  // extern "C"
