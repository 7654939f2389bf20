#include "tests/process/at_rest.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

namespace capstan {
namespace {

namespace fs = std::filesystem;

// How often a thread has left the processor. None: it does not sleep, or has ended.
std::optional<uint64_t> SwitchesOfSleeper(const fs::path& thread) {
  std::ifstream words(thread / "status");
  bool sleeps = false;
  int counts = 0;
  uint64_t switches = 0;
  for (std::string word; words >> word;) {
    if (word == "State:") {
      words >> word;
      sleeps = word == "S";
    } else if (word == "voluntary_ctxt_switches:" || word == "nonvoluntary_ctxt_switches:") {
      uint64_t count = 0;
      words >> count;
      switches += count;
      ++counts;
    }
  }
  return sleeps && counts == 2 ? std::optional(switches) : std::nullopt;
}

// The switches of all threads, by their folders. None: one of them does not sleep.
std::optional<std::map<std::string, uint64_t>> Sleepers(const std::vector<pid_t>& processes) {
  std::map<std::string, uint64_t> sleepers;
  for (const pid_t process : processes) {
    std::error_code error;
    const fs::path folder = "/proc/" + std::to_string(process) + "/task";
    for (const auto& thread : fs::directory_iterator(folder, error)) {
      const std::optional<uint64_t> switches = SwitchesOfSleeper(thread.path());
      if (!switches.has_value()) return std::nullopt;
      sleepers[thread.path()] = *switches;
    }
    if (error) return std::nullopt;
  }
  return sleepers;
}

}  // namespace

bool WereAtRest(const std::vector<pid_t>& processes) {
  const auto before = Sleepers(processes);
  // A thread that has run in between has been switched to and away again. If none has, all slept
  // when the first look was over.
  return before.has_value() && before == Sleepers(processes);
}

}  // namespace capstan
