#include "worker/dataset/sparse/binary_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

struct Scored {
  float score;
  bool is_positive;
};

}  // namespace

absl::StatusOr<double> Auc(absl::Span<const float> scores, absl::Span<const float> labels) {
  if (scores.size() != labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("expected a score for each of ", labels.size(),
                                                   " labels, got ", scores.size()));
  }
  std::vector<Scored> samples(scores.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::isnan(scores[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected numbers as scores, got NaN for sample ", i, " (from 0)"));
    }
    samples[i] = {scores[i], labels[i] == 1};
  }
  std::sort(samples.begin(), samples.end(),
            [](const Scored& a, const Scored& b) { return a.score < b.score; });
  // Twice the number of pairs in order, as ties count half.
  double pairs = 0;
  uint64_t negatives = 0, positives = 0;
  for (size_t begin = 0; begin < samples.size();) {
    uint64_t tied_negatives = 0, tied_positives = 0;
    size_t end = begin;
    for (; end < samples.size() && samples[end].score == samples[begin].score; ++end) {
      ++(samples[end].is_positive ? tied_positives : tied_negatives);
    }
    pairs +=
        static_cast<double>(tied_positives) * static_cast<double>(2 * negatives + tied_negatives);
    negatives += tied_negatives;
    positives += tied_positives;
    begin = end;
  }
  if (negatives == 0 || positives == 0) {
    return absl::InvalidArgumentError(absl::StrCat("expected samples with both labels, got ",
                                                   negatives, " with 0 and ", positives,
                                                   " with 1: use more samples"));
  }
  return pairs / 2 / static_cast<double>(negatives) / static_cast<double>(positives);
}

void BinaryMetrics::Add(float log_odds, float label) {
  const double odds = log_odds;
  ++count_;
  correct_ += (log_odds > 0) == (label == 1) ? 1 : 0;
  // log(1 + exp(odds)) - label x odds, without overflow.
  loss_sum_ +=
      std::max(odds, 0.0) + std::log1p(std::exp(-std::abs(odds))) - (label == 1 ? odds : 0);
}

void BinaryMetrics::Add(const BinaryMetrics& other) {
  count_ += other.count_;
  correct_ += other.correct_;
  loss_sum_ += other.loss_sum_;
}

}  // namespace capstan
