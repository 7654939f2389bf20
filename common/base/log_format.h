#ifndef COMMON_BASE_LOG_FORMAT_H_
#define COMMON_BASE_LOG_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// A program logs to standard error: text, or JSON with one object a line. Like glog's, the settings
// are those of the process. All functions are thread-safe.

namespace capstan {

// One line of a log in JSON.
struct LogLine {
  absl::Time time;
  absl::string_view level;     // info, warning, error or fatal
  absl::string_view role;      // of the process
  std::optional<uint32_t> id;  // of the process in its role, once it is registered
  std::optional<int64_t> step;
  absl::string_view reason;  // empty: none
  absl::string_view message;
  absl::string_view source;  // file:line
};

// The line as JSON, with a newline. What is not printable becomes text such as "\x1b", as in logs
// of text. Newlines stay.
std::string JsonLogLine(const LogLine& line);

// Says which role this process has. Logs JSON from now on if its command line `args` has
// --log_format=json: so errors of the command line are JSON, too.
void BeginLogs(absl::string_view role, const std::vector<std::string>& args);

// Logs text or JSON from now on. INVALID_ARGUMENT: `format` is neither "text" nor "json".
absl::Status SetLogFormat(absl::string_view format);
bool LogsAreJson();

// From now on, lines have this id.
void SetLogId(uint32_t id);

// While it lives, what its thread logs has these fields. Logs of text do not show them: the message
// says the same in words.
class LogDetails {
 public:
  // No step, or no reason: they are not known.
  explicit LogDetails(std::optional<int64_t> step, std::string reason = "");
  explicit LogDetails(std::string reason) : LogDetails(std::nullopt, std::move(reason)) {}
  ~LogDetails();
  LogDetails(const LogDetails&) = delete;
  LogDetails& operator=(const LogDetails&) = delete;

  std::optional<int64_t> step() const { return step_; }
  const std::string& reason() const { return reason_; }

 private:
  const std::optional<int64_t> step_;
  const std::string reason_;
  const LogDetails* const outer_;  // null: none
};

}  // namespace capstan

#endif  // COMMON_BASE_LOG_FORMAT_H_
