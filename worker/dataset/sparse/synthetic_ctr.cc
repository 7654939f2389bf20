#include "worker/dataset/sparse/synthetic_ctr.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "worker/dataset/sparse/binary_metrics.h"

namespace capstan {
namespace {

// Streams of the seed: the last word of Philox's counter.
constexpr uint32_t kTrainingStream = 0x63747230;
constexpr uint32_t kHeldOutStream = 0x63747231;
constexpr uint32_t kWeightStream = 0x63747232;
constexpr uint32_t kFactorStream = 0x63747233;
constexpr uint32_t kDenseWeightStream = 0x63747234;

constexpr double kFieldGrowth = 1.4;
constexpr uint64_t kLeastKeysOfField = 4;
constexpr uint64_t kMaxKeys = uint64_t{1} << 32;

// Log odds are about normal with this variance and this mean. Then the best AUC is about 0.80, and
// about 25 % of the labels are 1.
constexpr double kLogOddsVariance = 1.8;
constexpr double kLogOddsMean = -1.4;
constexpr double kDensePart = 0.2;         // of the variance
constexpr double kInteractionPart = 0.5;   // of the variance, if there are interactions
constexpr size_t kInteractingFields = 10;  // the first ones: few keys, so each is seen often

uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

// Two independent standard normal numbers of two random words, by Box and Muller.
std::array<float, 2> Normals(uint32_t first, uint32_t second) {
  // In (0, 1], where the logarithm is finite.
  const double uniform = (static_cast<double>(first) + 1) * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(uniform));
  const double angle = 2 * M_PI * (static_cast<double>(second) * 0x1p-32);
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

std::array<float, 4> Normals(const std::array<uint32_t, 4>& words) {
  const std::array<float, 2> a = Normals(words[0], words[1]);
  const std::array<float, 2> b = Normals(words[2], words[3]);
  return {a[0], a[1], b[0], b[1]};
}

double Probability(double log_odds) { return 1 / (1 + std::exp(-log_odds)); }

// The 64-bit key of an id: the finalizer of SplitMix64. No two ids have the same key, and keys are
// spread evenly, like hashes of words.
uint64_t SpreadKey(uint64_t id) {
  id += 0x9E3779B97F4A7C15;
  id = (id ^ (id >> 30)) * 0xBF58476D1CE4E5B9;
  id = (id ^ (id >> 27)) * 0x94D049BB133111EB;
  return id ^ (id >> 31);
}

constexpr size_t kFactorCount = SyntheticCtr::kFactorCount;

using Matrix = std::array<std::array<double, kFactorCount>, kFactorCount>;

// Moves the vectors of the first ranks such that the vector of a random rank has mean 0. Then an
// inner product with it is uncorrelated with each of the two keys, and a model without pairs learns
// nothing of it. `vectors` is row-major [vectors, kFactorCount]; other ranks have the vector 0.
void CenterVectors(const ZipfRanks& ranks, std::vector<float>* vectors) {
  std::array<double, kFactorCount> sum = {};
  double total = 0;
  for (size_t rank = 0; rank < vectors->size() / kFactorCount; ++rank) {
    const double probability = ranks.Probability(rank);
    total += probability;
    for (size_t i = 0; i < kFactorCount; ++i) {
      sum[i] += probability * (*vectors)[rank * kFactorCount + i];
    }
  }
  for (size_t i = 0; i < vectors->size(); ++i) {
    (*vectors)[i] -= static_cast<float>(sum[i % kFactorCount] / total);
  }
}

// The covariance of the vector of a random rank. `vectors` are as CenterVectors leaves them.
Matrix Covariance(const ZipfRanks& ranks, const std::vector<float>& vectors) {
  Matrix covariance = {};
  for (size_t rank = 0; rank < vectors.size() / kFactorCount; ++rank) {
    const double probability = ranks.Probability(rank);
    const float* const vector = &vectors[rank * kFactorCount];
    for (size_t i = 0; i < kFactorCount; ++i) {
      for (size_t j = 0; j < kFactorCount; ++j) {
        covariance[i][j] += probability * vector[i] * vector[j];
      }
    }
  }
  return covariance;
}

// Of two symmetric matrices.
double TraceOfProduct(const Matrix& a, const Matrix& b) {
  double trace = 0;
  for (size_t i = 0; i < kFactorCount; ++i) {
    for (size_t j = 0; j < kFactorCount; ++j) trace += a[i][j] * b[i][j];
  }
  return trace;
}

}  // namespace

// What chance decides of a sample.
struct SyntheticCtr::Draw {
  std::array<uint64_t, kFieldCount> ranks;
  std::array<float, kDenseCount> dense;
  double uniform;  // of the label
};

absl::StatusOr<std::unique_ptr<const SyntheticCtr>> SyntheticCtr::Create(const Options& options) {
  if (options.samples == 0 || options.held_out == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at least 1 sample for training and 1 held out, got ",
                     options.samples, " and ", options.held_out));
  }
  const uint64_t least_keys = kFieldCount * kLeastKeysOfField;
  if (options.keys < least_keys || options.keys > kMaxKeys) {
    return absl::InvalidArgumentError(absl::StrCat("expected from ", least_keys, " to ", kMaxKeys,
                                                   " keys of synthetic samples, got ",
                                                   options.keys));
  }
  if (!(options.zipf_exponent >= 0 && options.zipf_exponent <= 4)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a Zipf exponent from 0 (all keys equally often) to 4, got ",
                     options.zipf_exponent));
  }
  return std::unique_ptr<const SyntheticCtr>(new SyntheticCtr(options));
}

SyntheticCtr::SyntheticCtr(const Options& options)
    : options_(options), philox_key_{Low(options.seed), High(options.seed)} {
  MakeFields();
  const double interactions = options.has_interactions ? kInteractionPart : 0;
  bias_ = kLogOddsMean;
  MakeWeights(kLogOddsVariance * (1 - interactions));
  if (options.has_interactions) MakeInteractions(kLogOddsVariance * interactions);
}

void SyntheticCtr::MakeFields() {
  // What the fields have beyond kLeastKeysOfField grows geometrically.
  const double spare = static_cast<double>(options_.keys - kFieldCount * kLeastKeysOfField);
  const double total = (std::pow(kFieldGrowth, kFieldCount) - 1) / (kFieldGrowth - 1);
  uint64_t first_id = 0;
  for (size_t field = 0; field < kFieldCount; ++field) {
    const double part = std::pow(kFieldGrowth, static_cast<double>(field)) / total;
    uint64_t count = kLeastKeysOfField + static_cast<uint64_t>(spare * part);
    if (field + 1 == kFieldCount) count = options_.keys - first_id;
    fields_.emplace_back(first_id, ZipfRanks(count, options_.zipf_exponent));
    first_id += count;
  }
}

void SyntheticCtr::MakeWeights(double variance) {
  double drawn_variance = 0;
  double drawn_mean = 0;
  for (Field& field : fields_) {
    const double least = kLeastExpected / static_cast<double>(options_.samples);
    field.weights.resize(field.ranks.CountFrequent(least));
    double sum = 0, square_sum = 0;
    for (uint64_t rank = 0; rank < field.weights.size(); ++rank) {
      const uint64_t id = field.first_id + rank;
      const float weight =
          Normals(Philox4x32({Low(id), High(id), 0, kWeightStream}, philox_key_))[0];
      const double probability = field.ranks.Probability(rank);
      field.weights[rank] = weight;
      sum += probability * weight;
      square_sum += probability * weight * weight;
    }
    drawn_mean += sum;
    drawn_variance += square_sum - sum * sum;
  }
  const double scale =
      drawn_variance > 0 ? std::sqrt(variance * (1 - kDensePart) / drawn_variance) : 0;
  for (Field& field : fields_) {
    for (float& weight : field.weights) weight = static_cast<float>(weight * scale);
  }
  bias_ -= drawn_mean * scale;
  double dense_squares = 0;
  for (uint32_t i = 0; i < kDenseCount; ++i) {
    dense_weights_[i] = Normals(Philox4x32({i, 0, 0, kDenseWeightStream}, philox_key_))[0];
    dense_squares += double{dense_weights_[i]} * dense_weights_[i];
  }
  const double dense_scale = std::sqrt(variance * kDensePart / dense_squares);
  for (float& weight : dense_weights_) weight = static_cast<float>(weight * dense_scale);
}

void SyntheticCtr::MakeInteractions(double variance) {
  Matrix sum = {};  // of the fields' covariances
  double drawn_variance = 0;
  for (size_t f = 0; f < kInteractingFields; ++f) {
    Field& field = fields_[f];
    for (uint64_t rank = 0; rank < field.weights.size(); ++rank) {
      const uint64_t id = field.first_id + rank;
      const std::array<float, kFactorCount> vector =
          Normals(Philox4x32({Low(id), High(id), 0, kFactorStream}, philox_key_));
      field.factors.insert(field.factors.end(), vector.begin(), vector.end());
    }
    CenterVectors(field.ranks, &field.factors);
    const Matrix covariance = Covariance(field.ranks, field.factors);
    // Independent vectors with mean 0 have an inner product of the variance trace(A B), where A and
    // B are their covariances. This field pairs with each field before it.
    drawn_variance += TraceOfProduct(sum, covariance);
    for (size_t i = 0; i < kFactorCount; ++i) {
      for (size_t j = 0; j < kFactorCount; ++j) sum[i][j] += covariance[i][j];
    }
  }
  // That variance grows with the fourth power of the vectors' length.
  const double scale = drawn_variance > 0 ? std::pow(variance / drawn_variance, 0.25) : 0;
  for (Field& field : fields_) {
    for (float& factor : field.factors) factor = static_cast<float>(factor * scale);
  }
}

SyntheticCtr::Draw SyntheticCtr::DrawSample(Part part, uint64_t number) const {
  constexpr size_t kRankWords = 2 * kFieldCount;
  constexpr size_t kDenseWords = kDenseCount + kDenseCount % 2;
  constexpr size_t kLabelWord = kRankWords + kDenseWords;
  std::array<uint32_t, (kLabelWord + 1 + 3) / 4 * 4> words;
  const uint32_t stream = part == Part::kTraining ? kTrainingStream : kHeldOutStream;
  for (uint32_t block = 0; block < words.size() / 4; ++block) {
    const std::array<uint32_t, 4> four =
        Philox4x32({Low(number), High(number), block, stream}, philox_key_);
    std::copy(four.begin(), four.end(), words.begin() + 4 * block);
  }
  Draw draw;
  for (size_t field = 0; field < kFieldCount; ++field) {
    const uint64_t bits = (uint64_t{words[2 * field]} << 21) ^ (words[2 * field + 1] >> 11);
    draw.ranks[field] = fields_[field].ranks.Rank(static_cast<double>(bits) * 0x1p-53);
  }
  for (size_t i = 0; i < kDenseCount; i += 2) {
    const std::array<float, 2> two = Normals(words[kRankWords + i], words[kRankWords + i + 1]);
    draw.dense[i] = two[0];
    if (i + 1 < kDenseCount) draw.dense[i + 1] = two[1];
  }
  draw.uniform = static_cast<double>(words[kLabelWord]) * 0x1p-32;
  return draw;
}

double SyntheticCtr::ModelLogOdds(const Draw& draw) const {
  double log_odds = bias_;
  for (size_t i = 0; i < kDenseCount; ++i) log_odds += double{dense_weights_[i]} * draw.dense[i];
  for (size_t field = 0; field < kFieldCount; ++field) {
    const std::vector<float>& weights = fields_[field].weights;
    if (draw.ranks[field] < weights.size()) log_odds += weights[draw.ranks[field]];
  }
  return options_.has_interactions ? log_odds + Interactions(draw) : log_odds;
}

// The sum over pairs of fields of their vectors' inner products, as in Rendle, "Factorization
// Machines", ICDM'10, lemma 3.1.
double SyntheticCtr::Interactions(const Draw& draw) const {
  std::array<double, kFactorCount> sum = {};
  double squares = 0;
  for (size_t field = 0; field < kInteractingFields; ++field) {
    const uint64_t rank = draw.ranks[field];
    if (rank >= fields_[field].weights.size()) continue;
    for (size_t i = 0; i < kFactorCount; ++i) {
      const double factor = fields_[field].factors[rank * kFactorCount + i];
      sum[i] += factor;
      squares += factor * factor;
    }
  }
  double square_of_sum = 0;
  for (const double entry : sum) square_of_sum += entry * entry;
  return (square_of_sum - squares) / 2;
}

void SyntheticCtr::AddSample(Part part, uint64_t number, SparseBatch* batch) const {
  const Draw draw = DrawSample(part, number);
  for (uint32_t field = 0; field < kFieldCount; ++field) {
    batch->AddKey(SpreadKey(fields_[field].first_id + draw.ranks[field]), 1.0f, field);
  }
  for (const float value : draw.dense) batch->AddDense(value);
  batch->EndSample(draw.uniform < Probability(ModelLogOdds(draw)) ? 1.0f : 0.0f);
}

double SyntheticCtr::LogOdds(Part part, uint64_t number) const {
  return ModelLogOdds(DrawSample(part, number));
}

uint64_t SyntheticCtr::Count(Part part) const {
  return part == Part::kTraining ? options_.samples : options_.held_out;
}

uint64_t SyntheticCtr::known_keys() const {
  uint64_t count = 0;
  for (const Field& field : fields_) count += field.weights.size();
  return count;
}

absl::StatusOr<double> BestAuc(const SyntheticCtr& data, uint64_t samples) {
  std::vector<float> log_odds(samples);
  std::vector<float> labels(samples);
  SparseBatch sample;
  for (uint64_t i = 0; i < samples; ++i) {
    sample.Clear();
    data.AddSample(SyntheticCtr::Part::kHeldOut, i, &sample);
    log_odds[i] = static_cast<float>(data.LogOdds(SyntheticCtr::Part::kHeldOut, i));
    labels[i] = sample.labels()[0];
  }
  return Auc(log_odds, labels);
}

}  // namespace capstan
