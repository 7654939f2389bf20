#ifndef WORKER_DATASET_DATASET_H_
#define WORKER_DATASET_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace capstan {

// Labelled samples in memory. `features` is row-major [size(), feature_count]; labels are
// 0 ... class_count - 1.
struct Dataset {
  int feature_count = 0;
  int class_count = 0;
  int first_feature = 0;  // its number in the file: 1 in most LIBSVM files
  std::vector<float> features;
  std::vector<int32_t> labels;

  size_t size() const { return labels.size(); }
  absl::Span<const float> Row(size_t sample) const {
    const size_t width = static_cast<size_t>(feature_count);
    return absl::MakeConstSpan(features).subspan(sample * width, width);
  }
};

// The samples of a job for training and for evaluation.
struct DataSplit {
  Dataset train;
  Dataset test;
  std::string warning;  // of DataWarning; empty: nothing seems wrong
};

// Streams of the job's seed, one for each use of the data. A use may add up to 32 bits of its own.
inline constexpr uint64_t kSyntheticStream = uint64_t{0x64617461} << 32;
inline constexpr uint64_t kSplitStream = uint64_t{0x73706c74} << 32;
inline constexpr uint64_t kBatchStream = uint64_t{0x62617463} << 32;

// Most classes of a data set. A larger label is surely no class.
inline constexpr int kMaxClasses = 1 << 20;

// INVALID_ARGUMENT unless `label` is in 0 ... `classes` - 1; `classes` 0 means kMaxClasses.
absl::Status CheckLabel(int64_t label, int classes);

// Most bytes for the features of one file.
inline constexpr int64_t kMaxDenseBytes = int64_t{8} << 30;

// RESOURCE_EXHAUSTED when a dense float32 matrix of this shape takes more than kMaxDenseBytes, or
// when `columns` does not fit an int. To be called before the allocation.
absl::Status CheckDenseSize(uint64_t rows, uint64_t columns);

// INVALID_ARGUMENT unless 0 < `test_fraction` < 1.
absl::Status CheckTestFraction(double test_fraction);

// Draws `test_fraction` of the samples by `seed` for the test; the others are for training. The
// number is rounded, and each side has at least one sample. INVALID_ARGUMENT for a wrong fraction
// or fewer than 2 samples.
absl::StatusOr<DataSplit> SplitDataset(const Dataset& data, double test_fraction, uint64_t seed);

}  // namespace capstan

#endif  // WORKER_DATASET_DATASET_H_
