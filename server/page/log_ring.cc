#include "server/page/log_ring.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/printable_text.h"

namespace capstan {

LogRing::LogRing() { google::AddLogSink(this); }

LogRing::~LogRing() { google::RemoveLogSink(this); }

std::vector<std::string> LogRing::Lines() const {
  MutexLock lock(&mu_);
  return {lines_.begin(), lines_.end()};
}

void LogRing::send(google::LogSeverity severity, const char* /*full_filename*/,
                   const char* /*base_filename*/, int /*line*/, const google::LogMessageTime& time,
                   const char* message, size_t size) {
  const absl::string_view text(message, std::min(size, kMaxLineBytes));
  std::string line = absl::StrFormat(
      "%c %02d:%02d:%02d %s%s", google::GetLogSeverityName(severity)[0], time.hour(), time.min(),
      time.sec(), PrintableText(text), size > kMaxLineBytes ? "..." : "");
  MutexLock lock(&mu_);
  lines_.push_back(std::move(line));
  if (lines_.size() > kMaxLines) lines_.pop_front();
}

}  // namespace capstan
