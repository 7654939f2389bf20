#include "tests/process/peak_memory.h"

#include <glog/logging.h>

#include <fstream>
#include <string>

namespace capstan {
namespace {

// Of a field in KiB, such as "VmRSS".
int64_t BytesOf(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kibibytes = 0;
  while (status >> word && word != field + ":") {
  }
  CHECK(status >> kibibytes) << "/proc/self/status has no " << field;
  return kibibytes * 1024;
}

}  // namespace

int64_t MemoryBytes() { return BytesOf("VmRSS"); }

int64_t PeakMemoryBytes() { return BytesOf("VmHWM"); }

}  // namespace capstan
