#ifndef WORKER_DATASET_SPARSE_STANDARD_INPUT_H_
#define WORKER_DATASET_SPARSE_STANDARD_INPUT_H_

#include <glog/logging.h>
#include <unistd.h>

#include "absl/strings/string_view.h"

namespace capstan {

// For tests: makes a pipe the standard input of the process, and restores it at the end.
class StandardInput {
 public:
  StandardInput() : saved_(dup(STDIN_FILENO)) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    writer_ = ends[1];
  }
  ~StandardInput() {
    End();
    close(STDIN_FILENO);
    if (saved_ >= 0) {
      dup2(saved_, STDIN_FILENO);
      close(saved_);
    }
  }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  // Waits while the pipe is full.
  void Write(absl::string_view bytes) {
    CHECK_EQ(write(writer_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  // The reader finds the end.
  void End() {
    if (writer_ >= 0) close(writer_);
    writer_ = -1;
  }

 private:
  const int saved_;  // negative: the process had none
  int writer_;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_STANDARD_INPUT_H_
