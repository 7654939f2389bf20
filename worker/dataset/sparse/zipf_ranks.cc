#include "worker/dataset/sparse/zipf_ranks.h"

#include <algorithm>
#include <cmath>

namespace capstan {

ZipfRanks::ZipfRanks(uint64_t count, double exponent)
    : count_(count), slope_(1 - exponent), total_(Integral(static_cast<double>(count) + 1)) {}

double ZipfRanks::Integral(double x) const {
  const double log_x = std::log(x);
  // Without a difference of nearly equal numbers when the exponent is near 1.
  return slope_ == 0 ? log_x : std::expm1(slope_ * log_x) / slope_;
}

uint64_t ZipfRanks::Rank(double uniform) const {
  const double area = uniform * total_;
  const double log_x = slope_ == 0 ? area : std::log1p(slope_ * area) / slope_;
  const uint64_t x = static_cast<uint64_t>(std::exp(log_x));
  return std::min(std::max(x, uint64_t{1}), count_) - 1;
}

double ZipfRanks::Probability(uint64_t rank) const {
  const double x = static_cast<double>(rank) + 1;
  return (Integral(x + 1) - Integral(x)) / total_;
}

uint64_t ZipfRanks::CountFrequent(double least) const {
  uint64_t low = 0, high = count_;  // ranks below `low` are frequent, those from `high` on are not
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (Probability(middle) >= least) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace capstan
