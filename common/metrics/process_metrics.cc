#include "common/metrics/process_metrics.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace capstan {
namespace {

// Places in /proc/PID/stat (man proc), after the name in parentheses.
constexpr size_t kUserTicks = 11;
constexpr size_t kSystemTicks = 12;
constexpr size_t kStartTicks = 19;
constexpr size_t kResidentPages = 21;

std::string ReadText(const char* path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The time of the machine's start, as Unix time.
std::optional<double> BootTime() {
  double seconds = 0;
  for (const absl::string_view line : absl::StrSplit(ReadText("/proc/stat"), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words.size() == 2 && words[0] == "btime" && absl::SimpleAtod(words[1], &seconds)) {
      return seconds;
    }
  }
  return std::nullopt;
}

// Without the one that is needed to count.
std::optional<int64_t> OpenFileDescriptors() {
  std::error_code error;
  int64_t count = -1;
  for (std::filesystem::directory_iterator next("/proc/self/fd", error), end; next != end;
       next.increment(error)) {
    if (error) break;
    ++count;
  }
  if (error || count < 0) return std::nullopt;
  return count;
}

}  // namespace

std::optional<ProcessNumbers> ParseProcessStat(absl::string_view stat) {
  // The name may have spaces and parentheses.
  const size_t name_end = stat.rfind(") ");
  if (name_end == absl::string_view::npos) return std::nullopt;
  const std::vector<absl::string_view> words = absl::StrSplit(stat.substr(name_end + 2), ' ');
  uint64_t user = 0;
  uint64_t system = 0;
  uint64_t start = 0;
  uint64_t pages = 0;
  if (words.size() <= kResidentPages || !absl::SimpleAtoi(words[kUserTicks], &user) ||
      !absl::SimpleAtoi(words[kSystemTicks], &system) ||
      !absl::SimpleAtoi(words[kStartTicks], &start) ||
      !absl::SimpleAtoi(words[kResidentPages], &pages)) {
    return std::nullopt;
  }
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcessNumbers numbers;
  numbers.cpu_seconds = static_cast<double>(user + system) / ticks_per_second;
  numbers.seconds_after_boot = static_cast<double>(start) / ticks_per_second;
  numbers.resident_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return numbers;
}

void AddProcessMetrics(MetricsPage& page) {
  if (const std::optional<ProcessNumbers> numbers = ParseProcessStat(ReadText("/proc/self/stat"))) {
    page.Add("process_resident_memory_bytes", static_cast<double>(numbers->resident_bytes));
    page.Add("process_cpu_seconds_total", numbers->cpu_seconds);
    if (const std::optional<double> boot = BootTime()) {
      page.Add("process_start_time_seconds", *boot + numbers->seconds_after_boot);
    }
  }
  if (const std::optional<int64_t> open = OpenFileDescriptors()) {
    page.Add("process_open_fds", static_cast<double>(*open));
  }
}

}  // namespace capstan
