#include "worker/engine/local_rounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace capstan {

void LocalRounds::Begin() {
  local_step_ = 0;
  pushed_ = 0;
  began_ = clock_->Now();
}

void LocalRounds::NoteStep() {
  ++total_;
  ++local_step_;
  pushed_ = std::max(pushed_, static_cast<int>(Due()));
}

int64_t LocalRounds::Due() const {
  const int64_t fragments = settings_.fragments();
  if (settings_.sync_every() > 0) return local_step_ * fragments / settings_.sync_every();
  const double elapsed = absl::ToDoubleSeconds(clock_->Now() - began_);
  // The moment is that of the step which ends next to it.
  const double half_step = elapsed / static_cast<double>(local_step_) / 2;
  const double due =
      (elapsed + half_step) * static_cast<double>(fragments) / settings_.round_seconds();
  return due < static_cast<double>(fragments) ? static_cast<int64_t>(due) : fragments;
}

std::vector<int> SplitIntoFragments(absl::Span<const uint64_t> elements, int fragments) {
  const auto total =
      static_cast<double>(std::accumulate(elements.begin(), elements.end(), uint64_t{0}));
  const int layers = static_cast<int>(elements.size());
  std::vector<int> firsts = {0};
  double done = 0;
  for (int layer = 0; layer < layers; ++layer) {
    const auto size = static_cast<double>(elements[layer]);
    // A layer belongs to the fragment in which its middle lies, and each fragment has one.
    const int wanted = static_cast<int>(std::floor((done + size / 2) * fragments / total));
    const int begun = static_cast<int>(firsts.size());
    const bool is_new = firsts.back() < layer && begun < fragments;
    if (is_new && (begun <= wanted || layers - layer == fragments - begun)) firsts.push_back(layer);
    done += size;
  }
  firsts.push_back(layers);
  return firsts;
}

}  // namespace capstan
