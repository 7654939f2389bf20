#include "server/coordinator/plans/tuning/tuner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace capstan {
namespace {

constexpr uint64_t kMostBytes = 64 << 20;

// Doublings of `first`, up to the first one that is at least `enough`.
std::vector<uint64_t> Doublings(uint64_t first, uint64_t enough) {
  std::vector<uint64_t> sizes = {first};
  while (sizes.back() < enough && sizes.back() <= kMostBytes / 2) sizes.push_back(2 * sizes.back());
  return sizes;
}

// The first measurements are at a partition of one slice and at every third doubling of the credit.
constexpr int kCreditOctaves = 3;

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// In doublings of partition and credit.
double Distance(const SchedulePoint& a, const SchedulePoint& b) {
  const auto octaves = [](uint64_t from, uint64_t to) {
    return std::log2(static_cast<double>(to) / static_cast<double>(from));
  };
  const double partition = octaves(a.partition_bytes, b.partition_bytes);
  const double credit = octaves(a.credit_bytes, b.credit_bytes);
  return std::sqrt(partition * partition + credit * credit);
}

// `gain` of the best point over the job's own, and the part by which repeated measurements differ.
std::string ReasonOf(bool is_other, double gain, double noise) {
  if (is_other) {
    return absl::StrFormat(
        "%.1f %% faster than the job's own; measured again they differ by %.1f %%", 100 * gain,
        100 * noise);
  }
  if (gain <= 0) return "the job's own: no other is faster";
  return absl::StrFormat(
      "the job's own: another is %.1f %% faster, but measured again they differ by %.1f %%",
      100 * gain, 100 * noise);
}

}  // namespace

std::vector<SchedulePoint> Candidates(const SearchSpace& space) {
  std::vector<SchedulePoint> candidates = {space.own};
  for (const uint64_t partition : Doublings(space.slice_bytes, space.largest_tensor_bytes)) {
    for (const uint64_t credit : Doublings(space.slice_bytes, space.model_bytes)) {
      const SchedulePoint point = {partition, credit};
      if (credit >= partition && !(point == space.own)) candidates.push_back(point);
    }
  }
  return candidates;
}

Tuner::Tuner(const SearchSpace& space) : space_(space), candidates_(Candidates(space)) {
  planned_.push_back(0);
  uint64_t credit_bytes = space_.slice_bytes;
  for (size_t index = 1; index < candidates_.size(); ++index) {
    const SchedulePoint& point = candidates_[index];
    if (point.partition_bytes != space_.slice_bytes || point.credit_bytes < credit_bytes) continue;
    if (point.credit_bytes == credit_bytes) planned_.push_back(index);
    credit_bytes <<= kCreditOctaves;
  }
  if (candidates_.size() > 1) return;
  has_ended_ = true;
  reason_ = "there is no choice: the model is one slice";
}

void Tuner::Record(double step_seconds) {
  if (has_ended_) return;
  if (std::exchange(has_warmed_up_, true)) {
    measurements_.push_back({current(), step_seconds});
    measured_.push_back(current_);
  }
  if (planned_.empty() && is_comparing_) return Choose();
  if (planned_.empty()) {
    const size_t all = std::min(kExploredPoints, candidates_.size() - 1);
    if (Explored().size() < all) {
      planned_.push_back(NextToExplore());
    } else {
      BeginComparison();
    }
  }
  current_ = planned_.front();
  planned_.pop_front();
}

int Tuner::points_tried() const {
  return static_cast<int>(std::set<size_t>(measured_.begin(), measured_.end()).size());
}

std::vector<size_t> Tuner::Explored() const {
  const std::set<size_t> all(measured_.begin(), measured_.end());
  std::vector<size_t> explored(all.begin(), all.end());
  explored.erase(std::remove(explored.begin(), explored.end(), 0), explored.end());
  return explored;
}

bool Tuner::IsMeasured(size_t candidate) const {
  return std::find(measured_.begin(), measured_.end(), candidate) != measured_.end();
}

size_t Tuner::Fastest() const {
  const auto fastest = std::min_element(
      measurements_.begin(), measurements_.end(),
      [](const auto& a, const auto& b) { return a.step_seconds < b.step_seconds; });
  return measured_[static_cast<size_t>(fastest - measurements_.begin())];
}

size_t Tuner::NextToExplore() const {
  const SchedulePoint best = candidates_[Fastest()];
  std::vector<SchedulePoint> steps;
  if (best.partition_bytes == space_.slice_bytes) {
    steps.push_back({best.partition_bytes, best.credit_bytes / 2});
    steps.push_back({best.partition_bytes, best.credit_bytes * 2});
  }
  const uint64_t partition_bytes = 2 * best.partition_bytes;
  steps.push_back({partition_bytes, std::max(partition_bytes, best.credit_bytes)});
  for (const SchedulePoint& step : steps) {
    const auto found = std::find(candidates_.begin(), candidates_.end(), step);
    const auto index = static_cast<size_t>(found - candidates_.begin());
    if (found != candidates_.end() && !IsMeasured(index)) return index;
  }
  size_t nearest = 0;
  for (size_t index = 1; index < candidates_.size(); ++index) {
    if (IsMeasured(index)) continue;
    if (nearest == 0 || Distance(best, candidates_[index]) < Distance(best, candidates_[nearest])) {
      nearest = index;
    }
  }
  return nearest;
}

void Tuner::BeginComparison() {
  std::vector<std::pair<double, size_t>> rivals;
  for (size_t i = 0; i < measurements_.size(); ++i) {
    if (measured_[i] != 0) rivals.emplace_back(measurements_[i].step_seconds, measured_[i]);
  }
  std::sort(rivals.begin(), rivals.end());
  rivals.resize(std::min(rivals.size(), kRivals));
  for (int round = 0; round < kRounds; ++round) {
    planned_.push_back(0);
    for (const auto& [seconds, index] : rivals) planned_.push_back(index);
  }
  is_comparing_ = true;
  compared_from_ = measurements_.size();
}

void Tuner::Choose() {
  std::map<size_t, std::vector<double>> compared;
  for (size_t i = compared_from_; i < measurements_.size(); ++i) {
    compared[measured_[i]].push_back(measurements_[i].step_seconds);
  }
  std::map<size_t, double> seconds;
  double noise = 0;  // the part by which a point's measurements differ, on average
  size_t best = 0;
  for (const auto& [index, values] : compared) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    seconds[index] = MeanOf(values);
    noise += (*most - *least) / seconds[index] / static_cast<double>(compared.size());
    if (seconds[index] < seconds[best]) best = index;
  }
  own_seconds_ = seconds[0];
  const double gain = 1 - seconds[best] / own_seconds_;
  current_ = gain > noise ? best : 0;
  chosen_seconds_ = seconds[current_];
  has_ended_ = true;
  reason_ = ReasonOf(current_ != 0, gain, noise);
}

}  // namespace capstan
