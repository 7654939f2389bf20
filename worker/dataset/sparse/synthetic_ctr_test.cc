#include "worker/dataset/sparse/synthetic_ctr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/dataset/sparse/binary_metrics.h"
#include "worker/dataset/sparse/sparse_batch.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

using Part = SyntheticCtr::Part;

std::unique_ptr<const SyntheticCtr> Make(const SyntheticCtr::Options& options) {
  absl::StatusOr<std::unique_ptr<const SyntheticCtr>> data = SyntheticCtr::Create(options);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

SyntheticCtr::Options SmallOptions() {
  SyntheticCtr::Options options;
  options.samples = 200000;
  options.keys = 20000;
  return options;
}

SparseBatch Samples(const SyntheticCtr& data, Part part, uint64_t begin, uint64_t end) {
  SparseBatch batch;
  for (uint64_t i = begin; i < end; ++i) data.AddSample(part, i, &batch);
  return batch;
}

TEST(SyntheticCtrTest, SampleHasDenseFeaturesAndOneKeyOfEachField) {
  const SparseBatch batch = Samples(*Make(SmallOptions()), Part::kTraining, 0, 10);
  EXPECT_EQ(batch.size(), 10u);
  EXPECT_EQ(batch.dense_count(), 13u);
  for (size_t i = 0; i < batch.size(); ++i) {
    const SparseSample sample = batch.Sample(i);
    ASSERT_EQ(sample.keys.size(), 26u);
    for (uint32_t field = 0; field < 26; ++field) {
      EXPECT_EQ(sample.fields[field], field);
      EXPECT_EQ(sample.values[field], 1);
    }
  }
}

TEST(SyntheticCtrTest, SampleIsAFunctionOfSeedAndNumber) {
  SyntheticCtr::Options options = SmallOptions();
  const SparseBatch all = Samples(*Make(options), Part::kTraining, 0, 5);
  const SparseBatch one = Samples(*Make(options), Part::kTraining, 3, 4);
  EXPECT_EQ(one.Sample(0).keys, all.Sample(3).keys);
  EXPECT_EQ(one.Sample(0).dense, all.Sample(3).dense);
  EXPECT_EQ(one.Sample(0).label, all.Sample(3).label);

  EXPECT_NE(one.keys(), Samples(*Make(options), Part::kTraining, 4, 5).keys());
  EXPECT_NE(one.keys(), Samples(*Make(options), Part::kHeldOut, 3, 4).keys());
  options.seed = 2;
  EXPECT_NE(one.keys(), Samples(*Make(options), Part::kTraining, 3, 4).keys());
}

// A change of these numbers changes every synthetic job.
TEST(SyntheticCtrTest, FirstSampleStaysTheSame) {
  const std::unique_ptr<const SyntheticCtr> data = Make(SmallOptions());
  const SparseBatch batch = Samples(*data, Part::kTraining, 0, 1);
  EXPECT_EQ(batch.keys()[0], 16294208416658607535u);
  EXPECT_EQ(batch.keys()[25], 13082723548648550827u);
  EXPECT_NEAR(batch.dense()[0], -0.941642046, 1e-6);
  EXPECT_NEAR(data->LogOdds(Part::kTraining, 0), -1.22587657, 1e-6);
  EXPECT_EQ(batch.labels()[0], 0);
}

TEST(SyntheticCtrTest, FieldsShareNoKeysAndHaveTheNumberOfKeysTogether) {
  SyntheticCtr::Options options = SmallOptions();
  options.keys = 200;
  options.zipf_exponent = 0;  // so that every key occurs
  const SparseBatch batch = Samples(*Make(options), Part::kTraining, 0, 5000);
  std::map<uint64_t, uint32_t> field_of_key;
  for (size_t i = 0; i < batch.keys().size(); ++i) {
    const auto [entry, is_new] = field_of_key.emplace(batch.keys()[i], batch.fields()[i]);
    ASSERT_EQ(entry->second, batch.fields()[i]);
  }
  EXPECT_EQ(field_of_key.size(), 200u);
}

TEST(SyntheticCtrTest, KeysFollowZipfsLaw) {
  const std::unique_ptr<const SyntheticCtr> data = Make(SmallOptions());
  const SparseBatch batch = Samples(*data, Part::kTraining, 0, 20000);
  std::map<uint64_t, int> counts;
  for (size_t i = 25; i < batch.keys().size(); i += 26) ++counts[batch.keys()[i]];
  std::vector<int> sorted;
  for (const auto& [key, count] : counts) sorted.push_back(-count);
  std::sort(sorted.begin(), sorted.end());
  // About (rank + 1.5)^-1.1.
  const double ratio = static_cast<double>(sorted[1]) / sorted[9];
  EXPECT_NEAR(ratio, std::pow(2.5 / 10.5, -1.1), 0.5);
}

TEST(SyntheticCtrTest, LabelsHaveTheModelsProbabilities) {
  for (const bool has_interactions : {false, true}) {
    SyntheticCtr::Options options = SmallOptions();
    options.has_interactions = has_interactions;
    const std::unique_ptr<const SyntheticCtr> data = Make(options);
    constexpr uint64_t kSamples = 20000;
    const SparseBatch batch = Samples(*data, Part::kHeldOut, 0, kSamples);
    // In each tenth of the probabilities, as many clicks as they promise.
    std::vector<double> expected(10), clicks(10), variance(10);
    for (uint64_t i = 0; i < kSamples; ++i) {
      const double probability = 1 / (1 + std::exp(-data->LogOdds(Part::kHeldOut, i)));
      const size_t tenth = static_cast<size_t>(probability * 10);
      expected[tenth] += probability;
      variance[tenth] += probability * (1 - probability);
      clicks[tenth] += batch.labels()[i];
    }
    for (size_t tenth = 0; tenth < 10; ++tenth) {
      EXPECT_NEAR(clicks[tenth], expected[tenth], 4 * std::sqrt(variance[tenth]) + 1) << tenth;
    }
  }
}

TEST(SyntheticCtrTest, BestAucIsAboutFourFifthsAndAQuarterIsClicked) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    for (const bool has_interactions : {false, true}) {
      SyntheticCtr::Options options = SmallOptions();
      options.seed = seed;
      options.has_interactions = has_interactions;
      const std::unique_ptr<const SyntheticCtr> data = Make(options);
      const absl::StatusOr<double> auc = BestAuc(*data, /*samples=*/10000);
      ASSERT_TRUE(auc.ok()) << auc.status();
      EXPECT_NEAR(*auc, 0.80, 0.03) << "seed " << seed << " interactions " << has_interactions;
      const SparseBatch batch = Samples(*data, Part::kTraining, 0, 10000);
      double clicks = 0;
      for (const float label : batch.labels()) clicks += label;
      EXPECT_NEAR(clicks / 10000, 0.25, 0.05) << "seed " << seed;
    }
  }
}

TEST(SyntheticCtrTest, FewSamplesLeaveAModelOfDenseFeaturesAlone) {
  SyntheticCtr::Options options = SmallOptions();
  options.samples = 1;
  options.has_interactions = true;
  const std::unique_ptr<const SyntheticCtr> data = Make(options);
  EXPECT_EQ(data->known_keys(), 0u);
  EXPECT_TRUE(std::isfinite(data->LogOdds(Part::kTraining, 0)));
  EXPECT_TRUE(BestAuc(*data, /*samples=*/1000).ok());
}

TEST(SyntheticCtrTest, OptionsOutOfRangeAreRefused) {
  const auto error = [](SyntheticCtr::Options options) {
    const absl::Status status = SyntheticCtr::Create(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  SyntheticCtr::Options options;
  options.samples = 0;
  EXPECT_THAT(error(options), HasSubstr("expected at least 1 sample for training and 1 held out"));
  options = {};
  options.keys = 103;
  EXPECT_THAT(error(options), HasSubstr("expected from 104 to 4294967296 keys"));
  for (const double exponent : {-0.1, 5.0, std::numeric_limits<double>::quiet_NaN()}) {
    options = {};
    options.zipf_exponent = exponent;
    EXPECT_THAT(error(options), HasSubstr("expected a Zipf exponent from 0"));
  }
}

}  // namespace
}  // namespace capstan
