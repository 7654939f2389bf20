#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/history/check/rules.h"
#include "common/history/check/version_bounds.h"

namespace capstan {
namespace {

void CheckBound(const CheckedSlice& checked, const RecordedExchange& reply,
                Violations& violations) {
  if (!reply.pull_step.has_value()) return;
  const Contract::Promise promise = checked.contract.Of(reply.slice.table, *reply.pull_step);
  if (!promise.is_bounded()) return;
  const Step bound = *reply.pull_step + -promise.staleness;
  if (reply.min_step < bound) {
    violations.Add("staleness bound",
                   absl::StrCat("a pull of step ", reply.pull_step->value(), " with staleness ",
                                promise.staleness, " was answered at min_step ",
                                reply.min_step.value(), ", expected ", bound.value(), " or more"),
                   {&reply});
  }
  if (promise.is_isolated() && reply.min_step > *reply.pull_step) {
    violations.Add("isolation",
                   absl::StrCat("a BSP pull of step ", reply.pull_step->value(),
                                " was answered at min_step ", reply.min_step.value()),
                   {&reply});
  }
}

// min_step is at most the number of steps sent by each live worker.
void CheckMinStep(const CheckedSlice& checked, const RecordedExchange& reply,
                  Violations& violations) {
  for (const auto& [worker, lives] : checked.lives.all()) {
    const Life* life = checked.lives.Through(worker, reply.begin_ns, reply.end_ns);
    if (life == nullptr || reply.min_step <= life->first_step) continue;
    const Step last = reply.min_step + -1;
    const RecordedExchange* sent = checked.slice.FactsOf(worker, last).first_sent;
    if (sent != nullptr && !checked.IsBefore(reply.end_ns, sent->begin_ns)) continue;
    violations.Add(
        "min_step",
        absl::StrCat("min_step was reported as ", reply.min_step.value(), ", but the live worker ",
                     worker.value(), " had not sent its update of step ", last.value(), " by then"),
        {&reply, sent});
  }
}

// Each application of updates is one version.
void CheckVersion(const CheckedSlice& checked, const VersionBounds& bounds,
                  const RecordedExchange& reply, Violations& violations) {
  const int64_t skew = checked.history.header.clock_skew_ns();
  const uint64_t most = bounds.Most(reply.min_step, reply.end_ns + skew);
  const uint64_t least = bounds.Least(reply.min_step, reply.begin_ns - skew);
  if (reply.version > most) {
    violations.Add("exactly once",
                   absl::StrCat("version ", reply.version, " at min_step ", reply.min_step.value(),
                                ", but the updates sent by then allow only ", most,
                                ": an update was applied twice"),
                   {&reply});
    violations.Note(UpdateFate::kDoubled, reply.slice, reply.version - most);
  }
  if (reply.version < least) {
    violations.Add(
        "exactly once",
        absl::StrCat("version ", reply.version, " at min_step ", reply.min_step.value(),
                     ", but the updates acknowledged before make ", least, ": an update was lost"),
        {&reply});
    violations.Note(UpdateFate::kLost, reply.slice, least - reply.version);
  }
}

// Over consecutive exchanges of one worker, neither version nor min_step goes back.
void CheckMonotonic(const CheckedSlice& checked, Violations& violations) {
  std::map<WorkerId, const RecordedExchange*> latest;
  for (const RecordedExchange* exchange : checked.slice.exchanges()) {
    if (!exchange->is_ok()) continue;
    const RecordedExchange*& before = latest[exchange->worker];
    if (before != nullptr && checked.MustFollow(*exchange, *before)) {
      if (exchange->version < before->version || exchange->min_step < before->min_step) {
        violations.Add(
            "monotonic reads",
            absl::StrCat("worker ", exchange->worker.value(), " saw version ", before->version,
                         " and min_step ", before->min_step.value(), ", and then version ",
                         exchange->version, " and min_step ", exchange->min_step.value()),
            {exchange, before});
        if (exchange->version < before->version) {
          violations.Note(UpdateFate::kLost, exchange->slice, before->version - exchange->version);
        }
      }
    }
    if (before == nullptr || before->end_ns < exchange->end_ns) before = exchange;
  }
}

// The first answer to some processes of a worker, by time and by version.
struct FirstAnswers {
  const RecordedExchange* in_time = nullptr;
  const RecordedExchange* in_version = nullptr;

  void Add(const RecordedExchange& answer) {
    if (in_time == nullptr || answer.end_ns < in_time->end_ns) in_time = &answer;
    if (in_version == nullptr || answer.version < in_version->version) in_version = &answer;
  }
};

// After the first answer to a newer incarnation, the older one gets no answer, not even to earlier
// requests.
void CheckIncarnations(const CheckedSlice& checked, Violations& violations) {
  for (const auto& [worker, lives] : checked.lives.all()) {
    if (lives.size() < 2) continue;
    FirstAnswers newer;
    for (auto life = lives.rbegin(); life != lives.rend(); ++life) {
      FirstAnswers next = newer;
      for (const RecordedExchange* exchange : checked.slice.exchanges()) {
        if (exchange->worker != worker || !exchange->is_ok()) continue;
        if (exchange->incarnation != life->incarnation) continue;
        next.Add(*exchange);
        const RecordedExchange* before = nullptr;
        if (newer.in_time != nullptr &&
            checked.IsBefore(newer.in_time->end_ns, exchange->begin_ns)) {
          before = newer.in_time;
        } else if (newer.in_version != nullptr && newer.in_version->version < exchange->version &&
                   !checked.SeesOpenStep(*newer.in_version, *exchange)) {
          before = newer.in_version;
        }
        if (before == nullptr) continue;
        violations.Add("stale incarnation",
                       absl::StrCat("an exchange of incarnation ", exchange->incarnation.value(),
                                    " of worker ", worker.value(), " was accepted after one of ",
                                    before->incarnation.value(), ", its successor"),
                       {exchange, before});
      }
      newer = next;
    }
  }
}

// A worker that has left had the values after each of its pushes: no update is lost with it. A push
// may have been refused first, as by a server that does not know its keys. The worker may give up
// rows that it fetched ahead.
void CheckLeft(const CheckedSlice& checked, Violations& violations) {
  std::set<std::pair<Incarnation, Step>> answered;
  for (const RecordedExchange* exchange : checked.slice.exchanges()) {
    if (!exchange->is_ok() || !exchange->push_step.has_value()) continue;
    answered.emplace(exchange->incarnation, *exchange->push_step);
  }
  for (const RecordedExchange* exchange : checked.slice.exchanges()) {
    if (exchange->is_ok() || !exchange->push_step.has_value()) continue;
    if (!checked.lives.Of(*exchange).has_left) continue;
    if (answered.count({exchange->incarnation, *exchange->push_step}) > 0) continue;
    violations.Add("nothing lost by leaving",
                   absl::StrCat("worker ", exchange->worker.value(),
                                " has left before its exchange was answered well"),
                   {exchange});
  }
}

// Initial values are taken from worker 0 alone. If some were taken, nothing else was answered
// before it sent the first ones. Real jobs may have others in a file: their histories do not tell.
void CheckInitialValues(const CheckedSlice& checked, Violations& violations) {
  const RecordedExchange* first_sent = nullptr;
  bool are_taken = false;
  for (const RecordedExchange* exchange : checked.slice.exchanges()) {
    if (!exchange->is_initial) continue;
    if (exchange->worker == WorkerId(0)) {
      if (first_sent == nullptr) first_sent = exchange;
      are_taken = are_taken || exchange->is_ok();
    } else if (exchange->is_ok()) {
      violations.Add("initial values",
                     absl::StrCat("those of worker ", exchange->worker.value(),
                                  " were taken, expected only those of worker 0"),
                     {exchange});
    }
  }
  const v1::HistoryHeader& header = checked.history.header;
  if (!are_taken || !header.has_test_values() || header.restored_step() > 0) return;
  for (const RecordedExchange* exchange : checked.slice.exchanges()) {
    if (!exchange->is_ok() || exchange->is_initial) continue;
    if (!checked.IsBefore(exchange->end_ns, first_sent->begin_ns)) continue;
    violations.Add("initial values",
                   absl::StrCat("worker ", exchange->worker.value(),
                                " was answered before worker 0 had sent them"),
                   {exchange, first_sent});
  }
}

// Each request of a live worker is answered within the settling time.
void CheckAnswered(const CheckedSlice& checked, Violations& violations) {
  const int64_t open_since = checked.history.end_ns - checked.history.header.settle_ns();
  for (const RecordedExchange* exchange : checked.slice.exchanges()) {
    if (exchange->is_answered() || exchange->begin_ns > open_since) continue;
    if (checked.lives.Of(*exchange).died_ns != kNeverNs) continue;
    violations.Add(
        "every exchange is answered",
        absl::StrCat("worker ", exchange->worker.value(), " was live to the end and got no answer"),
        {exchange});
  }
}

}  // namespace

void CheckReplies(const CheckedSlice& checked, Violations& violations) {
  const VersionBounds bounds(checked.slice, checked.contract);
  // Otherwise nobody knows what was there before the first exchange.
  const bool knows_all =
      checked.history.header.restored_step() == 0 || checked.history.header.has_test_values();
  for (const RecordedExchange* reply : checked.slice.exchanges()) {
    if (!reply->is_ok()) continue;
    CheckBound(checked, *reply, violations);
    if (!knows_all) continue;
    CheckMinStep(checked, *reply, violations);
    CheckVersion(checked, bounds, *reply, violations);
  }
  CheckMonotonic(checked, violations);
  CheckIncarnations(checked, violations);
  CheckLeft(checked, violations);
  CheckInitialValues(checked, violations);
  CheckAnswered(checked, violations);
}

}  // namespace capstan
