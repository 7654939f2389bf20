// Shows that the streams' samples can be learned.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"
#include "worker/dataset/sparse/binary_metrics.h"
#include "worker/dataset/sparse/prefetching_stream.h"
#include "worker/dataset/sparse/sample_stream.h"
#include "worker/dataset/sparse/scalar_factorization_machine.h"
#include "worker/dataset/sparse/scalar_ftrl.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/dataset/sparse/sparse_text_parser.h"
#include "worker/dataset/sparse/synthetic_ctr.h"
#include "worker/dataset/sparse/synthetic_ctr_stream.h"
#include "worker/dataset/sparse/text_sample_stream.h"

namespace capstan {
namespace {

using Part = SyntheticCtr::Part;

// Gives every sample of the stream to `use`.
template <typename Use>
void ForEachSample(SampleStream& stream, Use use) {
  SparseBatch batch;
  while (true) {
    const absl::StatusOr<size_t> count = stream.Next(/*most=*/256, &batch);
    ASSERT_TRUE(count.ok()) << count.status();
    if (*count == 0) return;
    for (size_t i = 0; i < *count; ++i) use(batch.Sample(i));
  }
}

std::unique_ptr<const SyntheticCtr> MakeClicks(bool has_interactions) {
  SyntheticCtr::Options options;
  options.samples = 200000;
  options.held_out = 50000;
  options.keys = 20000;
  options.has_interactions = has_interactions;
  absl::StatusOr<std::unique_ptr<const SyntheticCtr>> data = SyntheticCtr::Create(options);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

// The AUC of `model` on the held-out samples, after one pass through the others.
template <typename Model>
double LearnedAuc(const SyntheticCtr& data, Model& model) {
  ForEachSample(**SyntheticCtrStream::Create({Part::kTraining, 1, {}}, &data),
                [&model](const SparseSample& sample) { model.Learn(sample); });
  std::vector<float> scores, labels;
  ForEachSample(**SyntheticCtrStream::Create({Part::kHeldOut, 1, {}}, &data),
                [&](const SparseSample& sample) {
                  scores.push_back(model.LogOdds(sample));
                  labels.push_back(sample.label);
                });
  return *Auc(scores, labels);
}

ScalarFtrl MakeRegression() {
  return ScalarFtrl({/*alpha=*/0.07f, /*beta=*/1, /*l1=*/4, /*l2=*/0});
}

TEST(LearningTest, LogisticRegressionComesNearTheBestAuc) {
  const std::unique_ptr<const SyntheticCtr> data = MakeClicks(/*has_interactions=*/false);
  ScalarFtrl regression = MakeRegression();
  const double learned = LearnedAuc(*data, regression);
  const double best = *BestAuc(*data, data->Count(Part::kHeldOut));
  std::cout << "AUC of a logistic regression " << learned << ", best " << best << "\n";
  EXPECT_NEAR(learned, best, 0.005);
}

TEST(LearningTest, FactorizationMachineLearnsInteractionsThatLogisticRegressionCannot) {
  const std::unique_ptr<const SyntheticCtr> data = MakeClicks(/*has_interactions=*/true);
  ScalarFtrl regression = MakeRegression();
  ScalarFactorizationMachine machine({});
  const double without_pairs = LearnedAuc(*data, regression);
  const double with_pairs = LearnedAuc(*data, machine);
  const double best = *BestAuc(*data, data->Count(Part::kHeldOut));
  std::cout << "AUC of a logistic regression " << without_pairs << ", of a factorization machine "
            << with_pairs << ", best " << best << "\n";
  EXPECT_LT(without_pairs, best - 0.05);
  EXPECT_GT(with_pairs, without_pairs + 0.04);
  EXPECT_LT(with_pairs, best);
}

std::unique_ptr<SampleStream> OpenMushrooms(const std::string& part, Clock* clock) {
  TextSampleStream::Options options;
  options.path = absl::StrCat("worker/dataset/testdata/agaricus.libsvm.", part, ".gz");
  absl::StatusOr<std::unique_ptr<TextSampleStream>> file =
      TextSampleStream::Create(options, MakeLibsvmLineParser({}));
  EXPECT_TRUE(file.ok()) << file.status();
  return *PrefetchingStream::Create({/*batch_size=*/256, /*batches_ahead=*/2}, *std::move(file),
                                    clock);
}

TEST(LearningTest, FewWeightsTellPoisonousMushrooms) {
  RealClock clock;
  ScalarFtrl model({/*alpha=*/10, /*beta=*/1, /*l1=*/200, /*l2=*/0});
  for (int epoch = 0; epoch < 12; ++epoch) {
    ForEachSample(*OpenMushrooms("train", &clock),
                  [&model](const SparseSample& sample) { model.Learn(sample); });
  }
  BinaryMetrics metrics;
  ForEachSample(*OpenMushrooms("test", &clock), [&](const SparseSample& sample) {
    metrics.Add(model.LogOdds(sample), sample.label);
  });
  std::cout << "accuracy " << metrics.accuracy() << " of " << metrics.count() << " samples, "
            << model.CountNonzeroKeys() << " of " << model.CountKeys() << " weights are not 0\n";
  EXPECT_EQ(metrics.count(), 1611u);
  EXPECT_GE(metrics.accuracy(), 0.99);
  EXPECT_LT(model.CountNonzeroKeys(), model.CountKeys() / 10);
}

}  // namespace
}  // namespace capstan
