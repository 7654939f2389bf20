#ifndef SERVER_COORDINATOR_TUNING_TUNER_H_
#define SERVER_COORDINATOR_TUNING_TUNER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "server/coordinator/tuning/gaussian_process.h"
#include "server/coordinator/tuning/schedule_point.h"
#include "server/coordinator/tuning/search_space.h"

namespace capstan {

// Looks for the point at which steps take the shortest time, by Bayesian optimisation: some points
// spread over the space, then those with the largest expected improvement; at the end the best ones
// are measured again in turn with the job's own, which stays unless another is faster by more than
// repeated measurements differ. The same measurements lead the same way. Not thread-safe.
class Tuner {
 public:
  struct Measurement {
    SchedulePoint point;
    double step_seconds = 0;
  };
  static constexpr int kMostMeasurements = 18;

  Tuner(const SearchSpace& space, uint64_t seed);

  // What to measure now; when it has ended, what to keep.
  const SchedulePoint& current() const { return candidates_[current_]; }
  bool has_ended() const { return has_ended_; }
  // The time of a step at the current point, which then is another one, unless it has ended.
  void Record(double step_seconds);

  // All that counts, in order: what is measured first, while the job warms up, does not.
  const std::vector<Measurement>& measurements() const { return measurements_; }
  int points_tried() const;
  // When it has ended: the time of a step at the current point and at the job's own, and why.
  double chosen_seconds() const { return chosen_seconds_; }
  double own_seconds() const { return own_seconds_; }
  const std::string& reason() const { return reason_; }

 private:
  // Points other than the job's own that are measured before the last comparison: those spread over
  // the space, and all.
  static constexpr int kSpreadPoints = 4;
  static constexpr size_t kExploredPoints = 10;
  // The last comparison: the job's own, and the best of the others; how often each.
  static constexpr size_t kRivals = 2;
  static constexpr int kRounds = 2;

  // The process of all measurements of logarithms of seconds, in units of their deviation.
  GaussianProcess Fit() const;
  std::vector<size_t> Explored() const;  // without the job's own
  size_t MostPromising() const;
  void BeginComparison();
  void Choose();

  const SearchSpace space_;
  const std::vector<SchedulePoint> candidates_;  // the first is the job's own
  std::deque<size_t> planned_;                   // to be measured next, in this order
  size_t current_ = 0;
  bool has_warmed_up_ = false;
  bool is_comparing_ = false;
  bool has_ended_ = false;
  std::vector<Measurement> measurements_;
  std::vector<size_t> measured_;  // the candidate of each of them
  size_t compared_from_ = 0;      // the first measurement of the last comparison
  double chosen_seconds_ = 0;
  double own_seconds_ = 0;
  std::string reason_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_TUNING_TUNER_H_
