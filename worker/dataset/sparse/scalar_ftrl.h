#ifndef WORKER_DATASET_SPARSE_SCALAR_FTRL_H_
#define WORKER_DATASET_SPARSE_SCALAR_FTRL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {

// For tests: logistic regression by FTRL-proximal, one sample after the other. McMahan et al., "Ad
// Click Prediction: a View from the Trenches", KDD'13, algorithm 1. Dense feature i has a weight
// like a key. Not thread-safe.
class ScalarFtrl {
 public:
  struct Options {
    float alpha = 0.1f;
    float beta = 1;
    float l1 = 0;
    float l2 = 0;
  };

  explicit ScalarFtrl(const Options& options) : options_(options) {}

  float LogOdds(const SparseSample& sample) const;
  void Learn(const SparseSample& sample);

  size_t CountKeys() const { return keys_.size(); }
  size_t CountNonzeroKeys() const;

 private:
  struct State {
    float z = 0;
    float n = 0;
  };

  float Weight(const State& state) const;
  void Update(float gradient, State* state) const;

  const Options options_;
  State bias_;
  absl::flat_hash_map<uint64_t, State> keys_;
  std::vector<State> dense_;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_SCALAR_FTRL_H_
