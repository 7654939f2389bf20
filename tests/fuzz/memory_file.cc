#include "tests/fuzz/memory_file.h"

#include <glog/logging.h>
#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace capstan {

MemoryFile::MemoryFile(absl::string_view bytes)
    : file_(memfd_create("fuzz", MFD_CLOEXEC)), path_(absl::StrCat("/proc/self/fd/", file_)) {
  PCHECK(file_ >= 0);
  PCHECK(write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

MemoryFile::~MemoryFile() { close(file_); }

}  // namespace capstan
