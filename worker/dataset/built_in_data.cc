#include "worker/dataset/built_in_data.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "worker/dataset/csv_reader.h"
#include "worker/dataset/dataset.h"
#include "worker/dataset/gzip_file.h"

namespace capstan {
namespace {

constexpr unsigned char kDigitsCsvGz[] = {
#include "worker/dataset/digits.csv.gz.inc"
};

// One fully connected layer; `weights` is row-major [biases.size(), inputs].
struct Layer {
  std::vector<float> weights;
  std::vector<float> biases;
};

// Normal weights of variance 1 / inputs; no biases.
Layer RandomLayer(size_t inputs, size_t outputs, Random& random) {
  Layer layer{std::vector<float>(inputs * outputs), std::vector<float>(outputs)};
  const float scale = 1.0f / std::sqrt(static_cast<float>(inputs));
  for (float& weight : layer.weights) weight = scale * random.Normal();
  return layer;
}

void Apply(const Layer& layer, absl::Span<const float> input, std::vector<float>* output) {
  const float* weights = layer.weights.data();
  for (size_t i = 0; i < output->size(); ++i, weights += input.size()) {
    (*output)[i] = std::inner_product(input.begin(), input.end(), weights, layer.biases[i]);
  }
}

class Teacher {
 public:
  Teacher(const v1::SyntheticSpec& spec, Random& random)
      : hidden_(RandomLayer(spec.features(), spec.teacher_hidden(), random)),
        output_(RandomLayer(spec.teacher_hidden(), spec.classes(), random)),
        activations_(spec.teacher_hidden()),
        scores_(spec.classes()) {
    CenterScores(spec.features());
  }

  int32_t Label(absl::Span<const float> features) {
    Apply(hidden_, features, &activations_);
    for (float& activation : activations_) activation = std::max(activation, 0.0f);
    Apply(output_, activations_, &scores_);
    return static_cast<int32_t>(std::max_element(scores_.begin(), scores_.end()) - scores_.begin());
  }

 private:
  // Chooses biases such that every score has mean 0: then no class is rare. For standard normal
  // inputs, the mean of ReLU(w x) is |w| / sqrt(2 pi).
  void CenterScores(size_t features) {
    std::vector<float> means(activations_.size());
    for (size_t i = 0; i < means.size(); ++i) {
      const absl::Span<const float> row =
          absl::MakeConstSpan(hidden_.weights).subspan(i * features, features);
      const float square = std::inner_product(row.begin(), row.end(), row.begin(), 0.0f);
      means[i] = std::sqrt(square / static_cast<float>(2 * M_PI));
    }
    Apply(output_, means, &scores_);
    for (size_t i = 0; i < scores_.size(); ++i) output_.biases[i] = -scores_[i];
  }

  Layer hidden_;
  Layer output_;
  std::vector<float> activations_;
  std::vector<float> scores_;
};

absl::Status CheckSpec(const v1::SyntheticSpec& spec) {
  if (spec.samples() == 0 || spec.features() == 0 || spec.teacher_hidden() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected samples, features and teacher_hidden of at least 1, got ",
                     spec.samples(), ", ", spec.features(), " and ", spec.teacher_hidden()));
  }
  if (spec.classes() < 2 || spec.classes() > kMaxClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected classes from 2 to ", kMaxClasses, ", got ", spec.classes()));
  }
  RETURN_IF_ERROR(CheckDenseSize(spec.samples(), spec.features()));
  RETURN_IF_ERROR(Annotate(CheckDenseSize(spec.teacher_hidden(), spec.features()),
                           "weights of the teacher's hidden layer"));
  return Annotate(CheckDenseSize(spec.classes(), spec.teacher_hidden()),
                  "weights of the teacher's output layer");
}

}  // namespace

Dataset MakeDigits() {
  const absl::string_view bytes(reinterpret_cast<const char*>(kDigitsCsvGz), sizeof(kDigitsCsvGz));
  const absl::StatusOr<std::string> text = Gunzip(bytes, FileLimits());
  CHECK(text.ok()) << text.status();
  absl::StatusOr<Dataset> data = ParseCsv(*text, "built-in digits", CsvOptions());
  CHECK(data.ok()) << data.status();
  return *std::move(data);
}

absl::StatusOr<Dataset> MakeSynthetic(const v1::SyntheticSpec& spec, uint64_t seed) {
  RETURN_IF_ERROR(Annotate(CheckSpec(spec), "data.synthetic"));
  Random random(seed, kSyntheticStream);
  Teacher teacher(spec, random);
  Dataset data;
  data.feature_count = static_cast<int>(spec.features());
  data.class_count = static_cast<int>(spec.classes());
  data.features.resize(size_t{spec.samples()} * spec.features());
  for (float& feature : data.features) feature = random.Normal();
  data.labels.resize(spec.samples());
  for (size_t i = 0; i < data.size(); ++i) data.labels[i] = teacher.Label(data.Row(i));
  return data;
}

}  // namespace capstan
