#include "tests/simulation/own_state_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/history/history.h"
#include "tests/simulation/restored_updates.h"

namespace capstan {
namespace {

bool IsExact(const Scenario& life) {
  return life.job.consistency().mode() == v1::ConsistencySpec::BSP && life.settings.empty() &&
         !life.pushes_ahead;
}

}  // namespace

void OwnStateCheck::BeginLife(const Scenario& life, const SimulatedDisk::Checkpoint* restored) {
  lacked_.clear();
  if (restored == nullptr) {
    past_lives_ = 0;
    is_exact_ = true;
  }
  is_known_ = restored == nullptr || is_exact_ || life.has_recorded_values;
  if (restored == nullptr || !is_known_) return;
  for (const auto& [shard, file] : restored->files) {
    for (const SliceSnapshot& slice : file.snapshot.slices) {
      const v1::RestoredSlice updates = UpdatesOf(slice, life);
      for (const v1::RestoredSlice::Update& update : updates.updates()) {
        Step& lacked = lacked_[{slice.key, WorkerId(update.worker())}];
        lacked = std::max(lacked, Step(update.step() + 1));
      }
    }
  }
}

std::string OwnStateCheck::EndLife(const Scenario& life, const SimulationResult& result) {
  std::string wrong;
  for (const FirstOwnState& begin : result.own_states) {
    if (wrong.empty() && is_known_) wrong = Check(life, begin);
  }
  ++past_lives_;
  is_exact_ = is_exact_ && IsExact(life);
  return wrong;
}

OwnStateCheck::Range OwnStateCheck::Expected(const Scenario& life, const FirstOwnState& begin,
                                             Step step) const {
  if (is_exact_) return step < begin.step ? Range{1, 1} : Range{0, 0};
  const auto found = lacked_.find({begin.slice, begin.worker});
  const Step lacked = found == lacked_.end() ? Step(0) : found->second;
  if (step < lacked) return {1, past_lives_};
  // One that pushes without a pull can be a step further ahead.
  const Step last = lacked + (life.pushes_ahead ? 1 : 0);
  return {0, step <= last ? past_lives_ : 0};
}

std::string OwnStateCheck::Check(const Scenario& life, const FirstOwnState& begin) const {
  const size_t size = begin.state.size() / life.own_arrays;
  for (size_t i = 0; i < begin.state.size(); ++i) {
    const size_t element = i % size;
    const auto array = static_cast<float>(i / size + 1);
    const WorkerId worker(static_cast<uint32_t>(element / static_cast<size_t>(life.steps)));
    const Step step(static_cast<int64_t>(element % static_cast<size_t>(life.steps)));
    const bool may_be_in =
        worker == begin.worker && HasGradient(life, worker, step, begin.slice.table);
    const Range expected = may_be_in ? Expected(life, begin, step) : Range{0, 0};
    const float got = 0.0f - begin.state[i] / (kTestUpdate * array);
    if (got >= static_cast<float>(expected.least) && got <= static_cast<float>(expected.most)) {
      continue;
    }
    return absl::StrCat(
        "own state: worker ", begin.worker.value(), " begins step ", begin.step.value(), " with ",
        got, " times the gradient of worker ", worker.value(), " at step ", step.value(),
        " in slice ", begin.slice.slice.value(), " of table ", begin.slice.table.value(),
        ", array ", i / size, "; expected ", expected.least, " to ", expected.most, " times");
  }
  return "";
}

}  // namespace capstan
