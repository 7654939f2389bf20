#ifndef SERVER_PAGE_LOG_RING_H_
#define SERVER_PAGE_LOG_RING_H_

#include <glog/logging.h>

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace capstan {

// Keeps the last lines of this process's log, from its construction on. Thread-safe.
class LogRing : public google::LogSink {
 public:
  static constexpr size_t kMaxLines = 50;
  static constexpr size_t kMaxLineBytes = 300;  // of a message; longer ones are cut

  LogRing();
  ~LogRing() override;

  // As "I 12:34:56 message", the oldest first. Printable.
  std::vector<std::string> Lines() const;

  void send(google::LogSeverity severity, const char* full_filename, const char* base_filename,
            int line, const google::LogMessageTime& time, const char* message,
            size_t size) override;

 private:
  mutable Mutex mu_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // SERVER_PAGE_LOG_RING_H_
