#include "worker/dataset/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

Dataset Select(const Dataset& data, absl::Span<const uint32_t> samples) {
  Dataset selected;
  selected.feature_count = data.feature_count;
  selected.class_count = data.class_count;
  selected.first_feature = data.first_feature;
  selected.features.reserve(samples.size() * static_cast<size_t>(data.feature_count));
  selected.labels.reserve(samples.size());
  for (const uint32_t sample : samples) {
    const absl::Span<const float> row = data.Row(sample);
    selected.features.insert(selected.features.end(), row.begin(), row.end());
    selected.labels.push_back(data.labels[sample]);
  }
  return selected;
}

}  // namespace

absl::Status CheckLabel(int64_t label, int classes) {
  if (label < 0) {
    return absl::InvalidArgumentError(absl::StrCat("expected a label from 0, got ", label));
  }
  if (classes > 0 && label >= classes) {
    return absl::InvalidArgumentError(absl::StrCat("expected a label below ", classes, ", got ",
                                                   label, ": pass a larger --classes, or none"));
  }
  if (label >= kMaxClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a label below ", kMaxClasses, ", got ", label));
  }
  return absl::OkStatus();
}

absl::Status CheckDenseSize(uint64_t rows, uint64_t columns) {
  constexpr double kGib = 1 << 30;
  const double bytes = static_cast<double>(rows) * static_cast<double>(columns) * sizeof(float);
  if (bytes <= kMaxDenseBytes && columns <= std::numeric_limits<int>::max()) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%d rows of %d values take %.1f GiB as dense float32, but at most %.0f GiB are supported: "
      "use fewer samples or fewer features",
      rows, columns, bytes / kGib, kMaxDenseBytes / kGib));
}

absl::Status CheckTestFraction(double test_fraction) {
  if (test_fraction > 0 && test_fraction < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected data.test_fraction between 0 and 1, got ", test_fraction,
                   ": pass --test_fraction=0.2, or --test_path=FILE"));
}

absl::StatusOr<DataSplit> SplitDataset(const Dataset& data, double test_fraction, uint64_t seed) {
  RETURN_IF_ERROR(CheckTestFraction(test_fraction));
  if (data.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at least 2 samples, to hold some out for the test, got ",
                     data.size(), ": use more samples, or pass --test_path=FILE"));
  }
  const auto wanted = std::llround(test_fraction * static_cast<double>(data.size()));
  const size_t test_count =
      std::min(std::max<size_t>(1, static_cast<size_t>(wanted)), data.size() - 1);
  Random random(seed, kSplitStream);
  const std::vector<uint32_t> order = RandomPermutation(static_cast<uint32_t>(data.size()), random);
  const absl::Span<const uint32_t> samples(order);
  return DataSplit{Select(data, samples.subspan(test_count)),
                   Select(data, samples.subspan(0, test_count)), /*warning=*/""};
}

}  // namespace capstan
