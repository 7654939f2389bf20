#include "common/base/log_format.h"

#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <streambuf>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/mutex.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

// glog cuts longer messages, too.
constexpr size_t kLongestLine = 30000;

thread_local const LogDetails* current_details = nullptr;

// After PrintableLines only these characters need an escape.
std::string JsonText(absl::string_view text) {
  std::string json = "\"";
  for (const char c : PrintableLines(text)) {
    if (c == '"' || c == '\\') json.push_back('\\');
    if (c == '\n') {
      json.append("\\n");
    } else {
      json.push_back(c);
    }
  }
  json.push_back('"');
  return json;
}

void WriteToStandardError(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDERR_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // There is no other place to tell it.
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// Writes glog's messages as JSON. Thread-safe: glog sends one message at a time.
class JsonSink : public google::LogSink {
 public:
  void set_role(absl::string_view role) {
    MutexLock lock(&mu_);
    role_ = std::string(role);
  }
  void set_id(uint32_t id) { id_ = id; }
  using google::LogSink::send;

  void send(google::LogSeverity severity, const char* /*full_filename*/, const char* base_filename,
            int line_number, const google::LogMessageTime& time, const char* message,
            size_t message_bytes) override {
    const std::string source = absl::StrCat(base_filename, ":", line_number);
    const std::string level = absl::AsciiStrToLower(google::GetLogSeverityName(severity));
    LogLine line;
    line.time = absl::FromTimeT(time.timestamp()) + absl::Microseconds(time.usec());
    line.level = level;
    if (const int64_t id = id_; id >= 0) line.id = static_cast<uint32_t>(id);
    if (current_details != nullptr) {
      line.step = current_details->step();
      line.reason = current_details->reason();
    }
    line.message = absl::string_view(message, message_bytes);
    line.source = source;
    const std::string role = GetRole();
    line.role = role;
    WriteToStandardError(JsonLogLine(line));
    if (severity == google::GLOG_FATAL) std::abort();  // glog would print a trace that is no JSON.
  }

 private:
  std::string GetRole() {
    MutexLock lock(&mu_);
    return role_;
  }

  std::atomic<int64_t> id_ = -1;  // -1: not registered
  Mutex mu_;
  std::string role_ ABSL_GUARDED_BY(mu_);
};

// Logs what is printed to std::cerr, line by line: Abseil prints errors of flags there.
// Thread-safe.
class LoggedLines : public std::streambuf {
 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    for (std::streamsize i = 0; i < size; ++i) Add(text[i]);
    return size;
  }
  int_type overflow(int_type c) override {
    if (c != traits_type::eof()) Add(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }

 private:
  void Add(char c) {
    std::string line;
    {
      MutexLock lock(&mu_);
      if (c != '\n') line_.push_back(c);
      if (c != '\n' && line_.size() < kLongestLine) return;
      line = std::exchange(line_, "");
    }
    if (!line.empty()) LOG(ERROR) << line;
  }

  Mutex mu_;
  std::string line_ ABSL_GUARDED_BY(mu_);
};

// The settings of this process. Never destroyed, because threads may log until the end.
struct Logs {
  JsonSink sink;
  LoggedLines lines;
  std::atomic<bool> are_json = false;
};

Logs& ProcessLogs() {
  static Logs* const logs = new Logs;
  return *logs;
}

void LogJson(Logs& logs) {
  if (logs.are_json.exchange(true)) return;
  // glog itself writes neither to standard error nor to files.
  FLAGS_logtostderr = false;
  FLAGS_alsologtostderr = false;
  FLAGS_stderrthreshold = google::NUM_SEVERITIES;
  for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity) {
    google::SetLogDestination(severity, "");
  }
  google::AddLogSink(&logs.sink);
  std::cerr.rdbuf(&logs.lines);
}

// The last value of --log_format in `args`; "text" if there is none.
absl::string_view LogFormatIn(const std::vector<std::string>& args) {
  absl::string_view format = "text";
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (!absl::ConsumePrefix(&arg, "--") && !absl::ConsumePrefix(&arg, "-")) continue;
    if (!absl::ConsumePrefix(&arg, "log_format")) continue;
    if (absl::ConsumePrefix(&arg, "=")) {
      format = arg;
    } else if (arg.empty() && i + 1 < args.size()) {
      format = args[i + 1];
    }
  }
  return format;
}

}  // namespace

std::string JsonLogLine(const LogLine& line) {
  std::string json = absl::StrCat(
      "{\"time\":\"", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", line.time, absl::UTCTimeZone()),
      "\",\"level\":", JsonText(line.level), ",\"role\":", JsonText(line.role));
  if (line.id.has_value()) absl::StrAppend(&json, ",\"id\":", *line.id);
  if (line.step.has_value()) absl::StrAppend(&json, ",\"step\":", *line.step);
  if (!line.reason.empty()) absl::StrAppend(&json, ",\"reason\":", JsonText(line.reason));
  absl::StrAppend(&json, ",\"message\":", JsonText(line.message),
                  ",\"source\":", JsonText(line.source), "}\n");
  return json;
}

void BeginLogs(absl::string_view role, const std::vector<std::string>& args) {
  ProcessLogs().sink.set_role(role);
  if (LogFormatIn(args) == "json") LogJson(ProcessLogs());
}

absl::Status SetLogFormat(absl::string_view format) {
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError(absl::StrCat("--log_format: expected text or json, got \"",
                                                   ShortPrintableText(format), "\""));
  }
  if (format == "json") LogJson(ProcessLogs());
  return absl::OkStatus();
}

bool LogsAreJson() { return ProcessLogs().are_json; }

void SetLogId(uint32_t id) { ProcessLogs().sink.set_id(id); }

LogDetails::LogDetails(std::optional<int64_t> step, std::string reason)
    : step_(step), reason_(std::move(reason)), outer_(std::exchange(current_details, this)) {}

LogDetails::~LogDetails() { current_details = outer_; }

}  // namespace capstan
