#ifndef WORKER_DATASET_SPARSE_SCALAR_FACTORIZATION_MACHINE_H_
#define WORKER_DATASET_SPARSE_SCALAR_FACTORIZATION_MACHINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/random.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {

// For tests: a factorization machine, trained by Adagrad, one sample after the other. Rendle,
// "Factorization Machines", ICDM'10. Dense features take part in no pairs. Not thread-safe.
class ScalarFactorizationMachine {
 public:
  static constexpr size_t kFactorCount = 8;

  struct Options {
    float learning_rate = 0.05f;
    // Standard deviation of the first values of the vectors.
    float initial = 0.1f;
    uint64_t seed = 1;
  };

  explicit ScalarFactorizationMachine(const Options& options)
      : options_(options), random_(options.seed) {}

  // Gives a key that it meets for the first time its first values.
  float LogOdds(const SparseSample& sample);
  void Learn(const SparseSample& sample);

 private:
  struct Weight {
    float value = 0;
    float squares = 1;  // of the gradients, and 1
  };
  struct Key {
    Weight weight;
    std::array<Weight, kFactorCount> factors;
  };

  Key& Find(uint64_t key);
  void Update(float gradient, Weight* weight) const;

  const Options options_;
  Random random_;
  Weight bias_;
  absl::flat_hash_map<uint64_t, Key> keys_;
  std::vector<Weight> dense_;
  std::array<float, kFactorCount> sums_;  // of the vectors of the last sample
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_SCALAR_FACTORIZATION_MACHINE_H_
