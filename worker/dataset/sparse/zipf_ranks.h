#ifndef WORKER_DATASET_SPARSE_ZIPF_RANKS_H_
#define WORKER_DATASET_SPARSE_ZIPF_RANKS_H_

#include <cstdint>

namespace capstan {

// Ranks 0 ... count - 1 with probabilities as in Zipf's law: rank r has a probability in proportion
// to the integral of x^-exponent from r + 1 to r + 2, about (r + 1.5)^-exponent. The integral lets
// a draw take constant time without a table.
class ZipfRanks {
 public:
  // `count` is not 0; `exponent` is finite and not negative.
  ZipfRanks(uint64_t count, double exponent);

  // The rank of a `uniform` number in [0, 1).
  uint64_t Rank(double uniform) const;
  double Probability(uint64_t rank) const;

  // The number of ranks with a probability of at least `least`. They are the first ones.
  uint64_t CountFrequent(double least) const;

  uint64_t count() const { return count_; }

 private:
  // The integral of x^-exponent from 1 to `x`.
  double Integral(double x) const;

  uint64_t count_;
  double slope_;  // 1 - exponent
  double total_;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_ZIPF_RANKS_H_
