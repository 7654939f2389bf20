#include "server/coordinator/tuning/tuner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/coordinator/tuning/expected_improvement.h"

namespace capstan {
namespace {

// Less than this between the times of two points is no difference.
constexpr double kLeastDeviation = 0.005;
// An improvement counts beyond this part of a deviation, as in ByteScheduler.
constexpr double kMargin = 0.1;

struct Statistics {
  double mean = 0;
  double deviation = 0;
};

Statistics StatisticsOf(const std::vector<double>& values) {
  Statistics statistics;
  for (const double value : values) statistics.mean += value;
  statistics.mean /= static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += std::pow(value - statistics.mean, 2);
  statistics.deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return statistics;
}

// `gain` of the best point over the job's own, and by which part repeated measurements differ.
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

Tuner::Tuner(const SearchSpace& space, uint64_t seed)
    : space_(space), candidates_(Candidates(space)) {
  planned_.push_back(0);
  for (const size_t index : SpreadOut(space_, candidates_, kSpreadPoints, seed)) {
    if (index != 0) planned_.push_back(index);
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
      planned_.push_back(MostPromising());
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

GaussianProcess Tuner::Fit() const {
  std::vector<TuningPoint> points;
  std::vector<double> values;
  for (const Measurement& measurement : measurements_) {
    points.push_back(Octaves(space_, measurement.point));
    values.push_back(std::log(measurement.step_seconds));
  }
  const Statistics statistics = StatisticsOf(values);
  const double unit = std::max(statistics.deviation, kLeastDeviation);
  for (double& value : values) value = (value - statistics.mean) / unit;
  return FitGaussianProcess(points, values);
}

std::vector<size_t> Tuner::Explored() const {
  const std::set<size_t> all(measured_.begin(), measured_.end());
  std::vector<size_t> explored(all.begin(), all.end());
  explored.erase(std::remove(explored.begin(), explored.end(), 0), explored.end());
  return explored;
}

size_t Tuner::MostPromising() const {
  const GaussianProcess process = Fit();
  // What a point is expected to be, rather than the luckiest measurement.
  double best = INFINITY;
  for (const size_t index : measured_) {
    best = std::min(best, process.Predict(Octaves(space_, candidates_[index])).mean);
  }
  size_t promising = 0;
  double most = -1;
  for (size_t index = 1; index < candidates_.size(); ++index) {
    if (std::find(measured_.begin(), measured_.end(), index) != measured_.end()) continue;
    const auto expected = process.Predict(Octaves(space_, candidates_[index]));
    const double improvement =
        ExpectedImprovement(expected.mean, std::sqrt(expected.variance), best - kMargin);
    if (improvement <= most) continue;
    most = improvement;
    promising = index;
  }
  return promising;
}

void Tuner::BeginComparison() {
  const GaussianProcess process = Fit();
  std::vector<std::pair<double, size_t>> rivals;
  for (const size_t index : Explored()) {
    rivals.emplace_back(process.Predict(Octaves(space_, candidates_[index])).mean, index);
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
  double noise = 0;  // by which part a point's measurements differ, on average
  size_t best = 0;
  for (const auto& [index, values] : compared) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    seconds[index] = StatisticsOf(values).mean;
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
