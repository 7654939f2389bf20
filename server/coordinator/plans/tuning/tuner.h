#ifndef SERVER_COORDINATOR_PLANS_TUNING_TUNER_H_
#define SERVER_COORDINATOR_PLANS_TUNING_TUNER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace capstan {

// How workers send.
struct SchedulePoint {
  uint64_t partition_bytes = 0;
  uint64_t credit_bytes = 0;

  bool operator==(const SchedulePoint& other) const {
    return partition_bytes == other.partition_bytes && credit_bytes == other.credit_bytes;
  }
};

// The choices of a job's tuning.
struct SearchSpace {
  SchedulePoint own;  // the job's own; its partition is one slice or more
  uint64_t slice_bytes = 0;
  uint64_t largest_tensor_bytes = 0;
  uint64_t model_bytes = 0;  // of all tensors
};

// `own`, and then doublings of a slice in both directions, until a partition holds the largest
// tensor and the credit all of them, at most 64 MiB. If the credit is smaller than a partition,
// partitions are sent one at a time, as with a credit of one partition: such points are left out.
std::vector<SchedulePoint> Candidates(const SearchSpace& space);

// Looks for the point with the shortest steps, by coordinate descent: first along the credit, then
// along the partition, then around the best point. At the end it measures the best points again, in
// turn with the job's own. The job's own stays unless another is faster by more than repeated
// measurements differ. The same measurements lead the same way. Not thread-safe.
class Tuner {
 public:
  struct Measurement {
    SchedulePoint point;
    double step_seconds = 0;
  };
  static constexpr int kMostMeasurements = 18;

  explicit Tuner(const SearchSpace& space);

  // The point to measure now; at the end, the choice.
  const SchedulePoint& current() const { return candidates_[current_]; }
  bool has_ended() const { return has_ended_; }
  // Takes the time of a step at the current point, and goes to another point or ends.
  void Record(double step_seconds);

  // All measurements in order, except the first one: the job warms up meanwhile.
  const std::vector<Measurement>& measurements() const { return measurements_; }
  int points_tried() const;
  // At the end: the time of a step at the choice and at the job's own, and the reason.
  double chosen_seconds() const { return chosen_seconds_; }
  double own_seconds() const { return own_seconds_; }
  const std::string& reason() const { return reason_; }

 private:
  // Points measured before the last comparison, beside the job's own.
  static constexpr size_t kExploredPoints = 10;
  // The last comparison: the job's own and the best of the others, each so often.
  static constexpr size_t kRivals = 2;
  static constexpr int kRounds = 2;

  std::vector<size_t> Explored() const;  // measured candidates, without the job's own
  size_t Fastest() const;                // of the measured candidates
  bool IsMeasured(size_t candidate) const;
  size_t NextToExplore() const;
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

#endif  // SERVER_COORDINATOR_PLANS_TUNING_TUNER_H_
