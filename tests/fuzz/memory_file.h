#ifndef TESTS_FUZZ_MEMORY_FILE_H_
#define TESTS_FUZZ_MEMORY_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// A file in memory, with a path for readers of files. It ends with this object.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view bytes = "");
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  const int file_;
  const std::string path_;
};

}  // namespace capstan

#endif  // TESTS_FUZZ_MEMORY_FILE_H_
