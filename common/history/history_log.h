#ifndef COMMON_HISTORY_HISTORY_LOG_H_
#define COMMON_HISTORY_HISTORY_LOG_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "proto/history.pb.h"

namespace capstan {

// Takes the records of a history in order of time. Thread-safe.
class HistoryLog {
 public:
  virtual ~HistoryLog() = default;
  virtual void Append(const v1::HistoryRecord& record) = 0;
};

// Keeps the records in memory.
class MemoryHistoryLog : public HistoryLog {
 public:
  void Append(const v1::HistoryRecord& record) override {
    MutexLock lock(&mu_);
    if (!is_closed_) records_.push_back(record);
  }

  // Ignores all later records.
  void Close() {
    MutexLock lock(&mu_);
    is_closed_ = true;
  }

  std::vector<v1::HistoryRecord> TakeRecords() {
    MutexLock lock(&mu_);
    return std::exchange(records_, {});
  }

 private:
  Mutex mu_;
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<v1::HistoryRecord> records_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // COMMON_HISTORY_HISTORY_LOG_H_
