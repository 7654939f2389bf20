#include "tests/process/peak_memory.h"

#include <glog/logging.h>

#include <fstream>
#include <string>

namespace capstan {
namespace {

// Of a field in KiB, such as "VmRSS". `process`: a number, or "self".
int64_t BytesOf(const std::string& process, const std::string& field) {
  std::ifstream status("/proc/" + process + "/status");
  std::string word;
  int64_t kibibytes = 0;
  while (status >> word && word != field + ":") {
  }
  CHECK(status >> kibibytes) << "/proc/" << process << "/status has no " << field;
  return kibibytes * 1024;
}

}  // namespace

int64_t MemoryBytes() { return BytesOf("self", "VmRSS"); }

int64_t PeakMemoryBytes() { return BytesOf("self", "VmHWM"); }

int64_t MemoryBytes(pid_t process) { return BytesOf(std::to_string(process), "VmRSS"); }

}  // namespace capstan
