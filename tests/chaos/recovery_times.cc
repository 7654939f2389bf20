#include "tests/chaos/recovery_times.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/ids.h"

namespace capstan {
namespace {

// The pushes of one step by one process.
struct PushedStep {
  WorkerId worker;
  Incarnation incarnation;
  int64_t begin_ns = kNeverNs;
  int64_t end_ns = 0;  // kNeverNs: a push was not answered well
};

// In order of begin.
std::vector<PushedStep> StepsOf(const History& history) {
  std::map<std::pair<Incarnation, Step>, PushedStep> steps;
  for (const RecordedExchange& exchange : history.exchanges) {
    if (!exchange.push_step.has_value()) continue;
    PushedStep& step = steps[{exchange.incarnation, *exchange.push_step}];
    step.worker = exchange.worker;
    step.incarnation = exchange.incarnation;
    step.begin_ns = std::min(step.begin_ns, exchange.begin_ns);
    step.end_ns = std::max(step.end_ns, exchange.is_ok() ? exchange.end_ns : kNeverNs);
  }
  std::vector<PushedStep> in_order;
  for (const auto& [key, step] : steps) in_order.push_back(step);
  std::sort(in_order.begin(), in_order.end(),
            [](const PushedStep& a, const PushedStep& b) { return a.begin_ns < b.begin_ns; });
  return in_order;
}

// The first request of each process.
std::map<Incarnation, int64_t> Begins(const std::vector<PushedStep>& steps) {
  std::map<Incarnation, int64_t> begins;
  for (const PushedStep& step : steps) begins.emplace(step.incarnation, step.begin_ns);
  return begins;
}

}  // namespace

absl::StatusOr<std::vector<Loss>> ReadLosses(absl::string_view text) {
  std::vector<Loss> losses;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    Loss loss;
    const bool is_loss = words.size() == 3 && (words[1] == "server" || words[1] == "worker") &&
                         absl::SimpleAtoi(words[2], &loss.time_ns);
    if (!is_loss) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected SIGNAL server|worker NANOSECONDS, got ", line));
    }
    loss.signal = words[0];
    loss.is_worker = words[1] == "worker";
    losses.push_back(std::move(loss));
  }
  return losses;
}

std::vector<std::optional<int64_t>> RecoveryTimes(const History& history,
                                                  const std::vector<Loss>& losses) {
  const std::vector<PushedStep> steps = StepsOf(history);
  const std::map<Incarnation, int64_t> begins = Begins(steps);
  std::vector<std::optional<int64_t>> times;
  std::set<Incarnation> used;  // by earlier losses of workers
  for (const Loss& loss : losses) {
    std::optional<Incarnation> next;
    int64_t end_ns = kNeverNs;
    for (const PushedStep& step : steps) {
      if (step.begin_ns <= loss.time_ns || step.end_ns == kNeverNs) continue;
      // Every process that begins later is in a lost worker's place.
      const bool counts = !loss.is_worker || (begins.at(step.incarnation) > loss.time_ns &&
                                              used.count(step.incarnation) == 0);
      if (!counts || step.end_ns >= end_ns) continue;
      end_ns = step.end_ns;
      next = step.incarnation;
    }
    times.push_back(end_ns == kNeverNs ? std::nullopt
                                       : std::optional<int64_t>(end_ns - loss.time_ns));
    if (loss.is_worker && next.has_value()) used.insert(*next);
  }
  return times;
}

int64_t LongestStep(const History& history) {
  int64_t longest = 0;
  std::map<Incarnation, int64_t> latest;
  for (const PushedStep& step : StepsOf(history)) {
    const auto [begin_ns, is_first] = latest.emplace(step.incarnation, step.begin_ns);
    if (!is_first) longest = std::max(longest, step.begin_ns - begin_ns->second);
    begin_ns->second = step.begin_ns;
  }
  return longest;
}

}  // namespace capstan
