#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/history/check/rules.h"
#include "common/history/check/slice_contents.h"

namespace capstan {
namespace {

// An answer with the updates in it.
struct SeenPull {
  const RecordedExchange* pull = nullptr;
  SliceContents contents;
};

// For each worker, the step after the last one that was acknowledged before some time.
class AcknowledgedSteps {
 public:
  explicit AcknowledgedSteps(const SliceHistory& slice) {
    for (const auto& [update, facts] : slice.pushes()) {
      if (facts.first_acknowledged == nullptr) continue;
      in_order_.push_back({facts.first_acknowledged->end_ns, update.first, update.second});
    }
    std::sort(in_order_.begin(), in_order_.end(),
              [](const Acknowledged& a, const Acknowledged& b) { return a.end_ns < b.end_ns; });
  }

  // `time_ns` is not before that of earlier calls.
  void Advance(int64_t time_ns) {
    for (; next_ < in_order_.size() && in_order_[next_].end_ns < time_ns; ++next_) {
      Step& end = ends_[in_order_[next_].worker];
      end = std::max(end, in_order_[next_].step + 1);
    }
  }
  Step EndOf(WorkerId worker) const {
    const auto end = ends_.find(worker);
    return end == ends_.end() ? Step() : end->second;
  }

 private:
  struct Acknowledged {
    int64_t end_ns = 0;
    WorkerId worker;
    Step step;
  };

  std::vector<Acknowledged> in_order_;
  size_t next_ = 0;
  std::map<WorkerId, Step> ends_;
};

// Checks one pull and its values.
class PullCheck {
 public:
  // `before`: an earlier pull of the worker, which was checked. What both have was checked, too.
  // Null: none.
  PullCheck(const CheckedSlice& checked, const RecordedExchange& pull,
            const SliceContents& contents, const SeenPull* before,
            const AcknowledgedSteps& acknowledged, Violations& violations)
      : checked_(checked),
        pull_(pull),
        step_(*pull.pull_step),
        promise_(checked.contract.Of(pull.slice.table, step_)),
        contents_(contents),
        before_(before != nullptr && checked.MustFollow(pull, *before->pull) &&
                        *before->pull->pull_step <= *pull.pull_step
                    ? &before->contents
                    : nullptr),
        acknowledged_(acknowledged),
        violations_(violations) {}

  void Run() {
    for (uint32_t worker = 0; worker < contents_.num_workers(); ++worker) {
      const WorkerId of(worker);
      // Nobody expects a later one.
      const Step end = std::max({step_, pull_.min_step, acknowledged_.EndOf(of)});
      for (Step step; step < Step(contents_.steps()); step = step + 1) {
        if (!contents_.Has(of, step)) {
          if (step < end) CheckAbsent(of, step);
        } else if (!WasChecked(of, step)) {
          CheckPresent(of, step);
        }
      }
    }
    CheckVersion();
    if (!promise_.is_isolated()) CheckMinStepIsNotTooLow();
  }

 private:
  struct Range {
    int least = 0;
    int most = 0;
  };

  bool WasChecked(WorkerId worker, Step step) const {
    return before_ != nullptr && contents_.IsSame(*before_, worker, step) &&
           contents_.Workers(step) == before_->Workers(step);
  }

  // "the update of worker 1 at step 2"
  static std::string Name(WorkerId worker, Step step) {
    return absl::StrCat("the update of worker ", worker.value(), " at step ", step.value());
  }

  void Add(std::string rule, std::string what, WorkerId worker, Step step) {
    const PushFacts facts = checked_.slice.FactsOf(worker, step);
    violations_.Add(std::move(rule),
                    absl::StrCat("the pull of step ", step_.value(), " by worker ",
                                 pull_.worker.value(), " ", what),
                    {&pull_, facts.first_acknowledged, facts.first_sent});
  }

  void NoteDoubled(WorkerId worker, Step step) {
    violations_.Note(UpdateFate::kDoubled, {pull_.slice, worker, step});
  }
  // Lost if it had been acknowledged by then. Otherwise the pull was answered too early.
  void NoteLost(WorkerId worker, Step step) {
    const RecordedExchange* acknowledged = checked_.slice.FactsOf(worker, step).first_acknowledged;
    if (acknowledged == nullptr || acknowledged->end_ns > pull_.end_ns) return;
    violations_.Note(UpdateFate::kLost, {pull_.slice, worker, step});
  }

  void CheckPresent(WorkerId worker, Step step) {
    const RecordedExchange* sent = checked_.slice.FactsOf(worker, step).first_sent;
    if (sent == nullptr || checked_.IsBefore(pull_.end_ns, sent->begin_ns)) {
      Add("no phantoms", absl::StrCat("contains ", Name(worker, step), ", not sent by then"),
          worker, step);
    }
    if (checked_.slice.FactsOf(worker, step).is_empty()) {
      Add("no phantoms",
          absl::StrCat("contains ", Name(worker, step), ", a push without a gradient"), worker,
          step);
    }
    if (const int count = contents_.Count(worker, step); count > 1) {
      Add("exactly once", absl::StrCat("contains ", Name(worker, step), " ", count, " times"),
          worker, step);
      NoteDoubled(worker, step);
    }
    if (promise_.is_isolated() && step >= step_) {
      Add("isolation",
          absl::StrCat("contains ", Name(worker, step), ": expected only earlier ones"), worker,
          step);
    }
    CheckDivisor(worker, step);
  }

  void CheckDivisor(WorkerId worker, Step step) {
    const bool is_mean = checked_.contract.Of(pull_.slice.table, step).is_isolated();
    const Range expected = is_mean ? PushesOf(step) : DivisorOf(worker, step);
    const int divisor = contents_.DivisorOf(worker, step);
    const bool is_right = divisor >= expected.least && divisor <= expected.most;
    if (expected.most == 0 || is_right || contents_.Count(worker, step) > 1) return;
    Add(is_mean ? "one sum a step" : "update scale",
        absl::StrCat("contains ", Name(worker, step), " divided by ", divisor, ", expected by ",
                     expected.least,
                     expected.least == expected.most ? "" : absl::StrCat(" to ", expected.most)),
        worker, step);
    // Equal parts add up to a larger part.
    if (!is_mean && divisor < expected.least) NoteDoubled(worker, step);
  }

  // The number of pushes in the mean of a BSP step. One without a gradient counts, too. If it was
  // not acknowledged, or was before the checkpoint, nobody knows whether it came.
  Range PushesOf(Step step) const {
    Range pushes = {contents_.Workers(step), contents_.Workers(step)};
    if (!checked_.slice.has_empty_pushes()) return pushes;
    for (uint32_t worker = 0; worker < contents_.num_workers(); ++worker) {
      const PushFacts facts = checked_.slice.FactsOf(WorkerId(worker), step);
      if (!facts.is_empty()) continue;
      ++pushes.most;
      pushes.least += facts.first_acknowledged != nullptr && !facts.is_restored;
    }
    return pushes;
  }

  // The divisor of an update outside BSP; 0: unknown.
  Range DivisorOf(WorkerId worker, Step step) const {
    const v1::HistoryHeader& header = checked_.history.header;
    if (header.update_scale() == v1::HistoryHeader::UPDATE_SCALE_UNSPECIFIED) return {1, 1};
    const auto divisor =
        static_cast<int>(checked_.slice.FactsOf(worker, step).learning_rate_divisor);
    return {divisor, divisor};
  }

  void CheckAbsent(WorkerId worker, Step step) {
    // There is nothing that could be in the values. Other rules say whether the step was awaited.
    if (checked_.slice.FactsOf(worker, step).is_empty()) return;
    const Life* life = checked_.lives.all().count(worker) == 0
                           ? nullptr
                           : checked_.lives.Through(worker, pull_.begin_ns, pull_.end_ns);
    const RecordedExchange* acknowledged = checked_.slice.FactsOf(worker, step).first_acknowledged;
    const bool is_due = acknowledged != nullptr || (life != nullptr && step >= life->first_step);
    if (is_due && promise_.is_bounded() && step < step_ + -promise_.staleness) {
      Add("staleness bound",
          absl::StrCat("lacks ", Name(worker, step), "; with staleness ", promise_.staleness,
                       ", it must contain all updates of steps below ",
                       step_.value() - promise_.staleness),
          worker, step);
      NoteLost(worker, step);
    }
    if (worker == pull_.worker && step < step_ && step >= checked_.lives.Of(pull_).first_step) {
      Add("read-my-writes", absl::StrCat("lacks its own update of step ", step.value()), worker,
          step);
      NoteLost(worker, step);
    }
    const bool may_be_in = (!promise_.is_isolated() || step < step_) && !IsKept(step);
    if (may_be_in && acknowledged != nullptr &&
        checked_.IsBefore(acknowledged->end_ns, pull_.begin_ns)) {
      Add("exactly once", absl::StrCat("lacks ", Name(worker, step), ", acknowledged before"),
          worker, step);
      NoteLost(worker, step);
    }
    if (life != nullptr && step >= life->first_step && step < pull_.min_step) {
      Add("min_step",
          absl::StrCat("lacks ", Name(worker, step), ", a live worker, but reports min_step ",
                       pull_.min_step.value()),
          worker, step);
      NoteLost(worker, step);
    }
  }

  // A server may keep the update until a BSP step is complete: its own step or an earlier one.
  bool IsKept(Step step) const {
    for (Step whole = pull_.min_step; whole <= step; whole = whole + 1) {
      if (checked_.contract.Of(pull_.slice.table, whole).is_isolated()) return true;
    }
    return false;
  }

  // Each push makes a version; under BSP each step does.
  void CheckVersion() {
    uint64_t expected = 0;
    for (Step step; step < Step(contents_.steps()); step = step + 1) {
      const bool is_mean = checked_.contract.Of(pull_.slice.table, step).is_isolated();
      expected += is_mean ? contents_.Workers(step) > 0 : contents_.Updates(step);
    }
    if (pull_.version == expected) return;
    violations_.Add("version",
                    absl::StrCat("the pull of step ", step_.value(), " by worker ",
                                 pull_.worker.value(), " reports version ", pull_.version,
                                 ", but its values have ", expected, " applications"),
                    {&pull_});
  }

  // The pull shows that the server has the worker's push of `step`.
  bool HasSeen(WorkerId worker, Step step) const {
    if (contents_.Has(worker, step)) return true;
    const PushFacts facts = checked_.slice.FactsOf(worker, step);
    return facts.is_empty() && facts.first_acknowledged != nullptr &&
           checked_.IsBefore(facts.first_acknowledged->end_ns, pull_.begin_ns);
  }

  // Some worker, possibly live then, has done at most min_step steps.
  void CheckMinStepIsNotTooLow() {
    const Step low = pull_.min_step;
    if (low >= Step(contents_.steps())) return;
    bool is_anyone_live = false;
    const int64_t settle_ns = checked_.history.header.settle_ns();
    for (const auto& [worker, lives] : checked_.lives.all()) {
      for (const Life& life : lives) {
        const bool may_count =
            life.joining_ns <= pull_.end_ns &&
            (life.died_ns == kNeverNs || life.died_ns + settle_ns >= pull_.begin_ns);
        if (!may_count) continue;
        is_anyone_live = true;
        const bool is_joining = life.entered_ns > pull_.begin_ns;
        const bool has_done_it = low < life.first_step || HasSeen(worker, low);
        if (is_joining || !has_done_it) return;
      }
    }
    if (!is_anyone_live) return;
    violations_.Add(
        "min_step",
        absl::StrCat("the pull of step ", step_.value(), " by worker ", pull_.worker.value(),
                     " reports min_step ", low.value(),
                     ", but the server has the pushes of that step of all live workers"),
        {&pull_});
  }

  const CheckedSlice& checked_;
  const RecordedExchange& pull_;
  const Step step_;
  const Contract::Promise promise_;
  const SliceContents& contents_;
  const SliceContents* const before_;
  const AcknowledgedSteps& acknowledged_;
  Violations& violations_;
};

// The pull has all updates of an earlier pull by the same worker.
void CheckNothingLost(const CheckedSlice& checked, const RecordedExchange& pull,
                      const SliceContents& contents, const RecordedExchange& earlier,
                      const SliceContents& earlier_contents, Violations& violations) {
  if (!checked.MustFollow(pull, earlier)) return;
  for (uint32_t worker = 0; worker < contents.num_workers(); ++worker) {
    for (Step step; step < Step(contents.steps()); step = step + 1) {
      const WorkerId of(worker);
      if (contents.Count(of, step) >= earlier_contents.Count(of, step)) continue;
      violations.Add("monotonic reads",
                     absl::StrCat("worker ", pull.worker.value(), " saw the update of worker ",
                                  worker, " at step ", step.value(), ", and later did not"),
                     {&pull, &earlier});
      violations.Note(UpdateFate::kLost, {pull.slice, of, step});
    }
  }
}

// The updates in the values of a slice's pulls. Each is read once.
class PullReader {
 public:
  explicit PullReader(const CheckedSlice& checked)
      : num_workers_(checked.history.header.num_workers()), steps_(checked.history.header.steps()) {
    for (const RecordedExchange* pull : checked.slice.exchanges()) {
      if (pull->changes.has_value()) chains_[pull->incarnation].pulls.push_back(pull);
    }
    for (auto& [incarnation, chain] : chains_) {
      std::sort(chain.pulls.begin(), chain.pulls.end(),
                [](const RecordedExchange* a, const RecordedExchange* b) {
                  return a->changes_number < b->changes_number;
                });
    }
  }

  // The errors are those of SliceContents::Decode.
  absl::StatusOr<SliceContents> Read(const RecordedExchange& pull) {
    if (!pull.changes.has_value()) {
      return SliceContents::Decode(pull.values, num_workers_, steps_);
    }
    Chain& chain = chains_.at(pull.incarnation);
    if (!chain.contents.has_value()) chain.contents = SliceContents::Empty(num_workers_, steps_);
    while (chain.next < chain.pulls.size() &&
           chain.pulls[chain.next]->changes_number <= pull.changes_number) {
      const RecordedExchange* const next = chain.pulls[chain.next++];
      absl::Status status;
      for (const auto& [element, value] : *next->changes) {
        status.Update(chain.contents->Set(element, value));
      }
      absl::StatusOr<SliceContents> contents = *chain.contents;
      if (!status.ok()) contents = status;
      if (next == &pull) return contents;
      ahead_.emplace(next, std::move(contents));
    }
    return ahead_.extract(&pull).mapped();
  }

 private:
  struct Chain {
    std::vector<const RecordedExchange*> pulls;  // as their changes follow one another
    size_t next = 0;
    std::optional<SliceContents> contents;
  };

  const uint32_t num_workers_;
  const int64_t steps_;
  std::map<Incarnation, Chain> chains_;
  // Pulls that were answered before another one that had begun earlier.
  std::map<const RecordedExchange*, absl::StatusOr<SliceContents>> ahead_;
};

}  // namespace

void CheckValues(const CheckedSlice& checked, Violations& violations) {
  PullReader reader(checked);
  AcknowledgedSteps acknowledged(checked.slice);
  std::map<WorkerId, SeenPull> latest;
  for (const RecordedExchange* pull : checked.slice.exchanges()) {
    if (!pull->is_ok() || !pull->pull_step.has_value() || pull->has_inexact_values) continue;
    absl::StatusOr<SliceContents> contents = reader.Read(*pull);
    if (!contents.ok()) {
      violations.Add("test values", std::string(contents.status().message()), {pull});
      continue;
    }
    const auto it = latest.find(pull->worker);
    SeenPull* const before = it == latest.end() ? nullptr : &it->second;
    acknowledged.Advance(pull->begin_ns);
    PullCheck(checked, *pull, *contents, before, acknowledged, violations).Run();
    if (before == nullptr) {
      latest.emplace(pull->worker, SeenPull{pull, *std::move(contents)});
      continue;
    }
    CheckNothingLost(checked, *pull, *contents, *before->pull, before->contents, violations);
    *before = {pull, *std::move(contents)};
  }
}

}  // namespace capstan
