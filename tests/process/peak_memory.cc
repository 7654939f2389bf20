#include "tests/process/peak_memory.h"

#include <glog/logging.h>

#include <fstream>
#include <string>

namespace capstan {

int64_t PeakMemoryBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kibibytes = 0;
  while (status >> word && word != "VmHWM:") {
  }
  CHECK(status >> kibibytes) << "/proc/self/status has no VmHWM";
  return kibibytes * 1024;
}

}  // namespace capstan
