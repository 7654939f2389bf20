#ifndef WORKER_DATASET_SPARSE_SYNTHETIC_CTR_H_
#define WORKER_DATASET_SPARSE_SYNTHETIC_CTR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/dataset/sparse/zipf_ranks.h"

namespace capstan {

// Random samples of clicks, labelled by a known model. A sample has 13 standard normal dense
// features and one key of each of 26 categorical fields. Sample and model are functions of the
// options and the sample's number alone: every worker can make every sample. Immutable, so
// thread-safe.
class SyntheticCtr {
 public:
  static constexpr size_t kDenseCount = 13;
  static constexpr size_t kFieldCount = 26;
  // Length of the vectors whose inner products are the interactions.
  static constexpr size_t kFactorCount = 4;
  // The model knows only keys that are expected at least this often in the training samples. The
  // weights of rarer keys are 0. So a learner can come near BestAuc in one pass.
  static constexpr double kLeastExpected = 2000;

  struct Options {
    uint64_t samples = 4'000'000;  // for training
    uint64_t held_out = 200'000;
    // Of all fields together. Each field has 1.4 times the keys of the field before.
    uint64_t keys = 1'000'000;
    // Of the keys of each field: see ZipfRanks.
    double zipf_exponent = 1.1;
    // Half of the model's variance comes from pairs of keys of two fields, as in a factorization
    // machine. A model without pairs can learn nothing of that half.
    bool has_interactions = false;
    uint64_t seed = 1;
  };

  enum class Part { kTraining, kHeldOut };

  // INVALID_ARGUMENT when an option is out of its range.
  static absl::StatusOr<std::unique_ptr<const SyntheticCtr>> Create(const Options& options);

  // Adds sample `number` of `part` to `batch`. Numbers go on beyond the options' counts.
  void AddSample(Part part, uint64_t number, SparseBatch* batch) const;

  // The log odds of a click by the true model. Equal to those that drew the label.
  double LogOdds(Part part, uint64_t number) const;

  // Number of samples of `part` in the options.
  uint64_t Count(Part part) const;

  // Number of keys with a weight in the model.
  uint64_t known_keys() const;

 private:
  // The keys of a field, and the model's part for them. Key `rank` has the id first_id + rank.
  struct Field {
    Field(uint64_t first_id, const ZipfRanks& ranks) : first_id(first_id), ranks(ranks) {}

    uint64_t first_id;
    ZipfRanks ranks;
    std::vector<float> weights;  // of the first ranks; 0 for the others
    std::vector<float> factors;  // row-major [weights.size(), kFactorCount], or empty
  };
  struct Draw;

  explicit SyntheticCtr(const Options& options);

  void MakeFields();
  void MakeWeights(double variance);
  void MakeInteractions(double variance);
  Draw DrawSample(Part part, uint64_t number) const;
  double ModelLogOdds(const Draw& draw) const;
  double Interactions(const Draw& draw) const;

  const Options options_;
  std::array<uint32_t, 2> philox_key_;
  std::vector<Field> fields_;
  std::array<float, kDenseCount> dense_weights_;
  double bias_ = 0;
};

// The AUC of the true model on the first `samples` held-out samples: no model can expect more.
// INVALID_ARGUMENT when all labels are equal.
absl::StatusOr<double> BestAuc(const SyntheticCtr& data, uint64_t samples);

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_SYNTHETIC_CTR_H_
