#ifndef COMMON_HISTORY_HISTORY_FILE_H_
#define COMMON_HISTORY_HISTORY_FILE_H_

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/history/history.h"
#include "common/history/history_log.h"
#include "proto/history.pb.h"

namespace capstan {

// Writes a history file, record by record. Thread-safe.
class HistoryFile : public HistoryLog {
 public:
  // Replaces a file of the same name. UNAVAILABLE, naming the file, when it cannot be written.
  static absl::StatusOr<std::unique_ptr<HistoryFile>> Create(const std::string& path);
  // Without Finish, closes the file as it is.
  ~HistoryFile() override;

  void Append(const v1::HistoryRecord& record) override;

  // Closes the file; no record may follow. UNAVAILABLE when a record could not be written.
  absl::Status Finish();

 private:
  HistoryFile(std::string path, FILE* file) : path_(std::move(path)), file_(file) {}

  const std::string path_;
  Mutex mu_;
  FILE* file_ ABSL_GUARDED_BY(mu_);
  bool has_failed_ ABSL_GUARDED_BY(mu_) = false;
};

// The bytes of a history file with these records.
std::string SerializeHistory(const std::vector<v1::HistoryRecord>& records);

// The records of a file. A last record cut off by a kill is left out. NOT_FOUND or
// INVALID_ARGUMENT, naming the file.
absl::StatusOr<std::vector<v1::HistoryRecord>> ReadHistoryFile(const std::string& path);

// The history in a file, or in all *.history files of a folder. Empty files are left out: their
// processes have sent no request.
absl::StatusOr<History> ReadHistory(const std::string& path);

}  // namespace capstan

#endif  // COMMON_HISTORY_HISTORY_FILE_H_
