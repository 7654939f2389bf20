#include "worker/dataset/sparse/synthetic_ctr_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace capstan {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Part = SyntheticCtr::Part;

std::unique_ptr<const SyntheticCtr> MakeData(uint64_t samples) {
  SyntheticCtr::Options options;
  options.samples = samples;
  options.held_out = 2;
  options.keys = 1000;
  absl::StatusOr<std::unique_ptr<const SyntheticCtr>> data = SyntheticCtr::Create(options);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

// The keys of the samples `numbers`, one after the other.
std::vector<uint64_t> KeysOf(const SyntheticCtr& data, Part part,
                             const std::vector<uint64_t>& numbers) {
  SparseBatch batch;
  for (const uint64_t number : numbers) data.AddSample(part, number, &batch);
  return std::vector<uint64_t>(batch.keys().begin(), batch.keys().end());
}

std::vector<uint64_t> NextKeys(SampleStream& stream, size_t most) {
  SparseBatch batch;
  const absl::StatusOr<size_t> count = stream.Next(most, &batch);
  EXPECT_TRUE(count.ok()) << count.status();
  return std::vector<uint64_t>(batch.keys().begin(), batch.keys().end());
}

std::unique_ptr<SyntheticCtrStream> Open(const SyntheticCtr& data,
                                         const SyntheticCtrStream::Options& options) {
  absl::StatusOr<std::unique_ptr<SyntheticCtrStream>> stream =
      SyntheticCtrStream::Create(options, &data);
  EXPECT_TRUE(stream.ok()) << stream.status();
  return *std::move(stream);
}

TEST(SyntheticCtrStreamTest, WorkersTakeTurnsUntilTheEnd) {
  const std::unique_ptr<const SyntheticCtr> data = MakeData(5);
  const std::unique_ptr<SyntheticCtrStream> first = Open(*data, {Part::kTraining, 1, {0, 2}});
  EXPECT_EQ(NextKeys(*first, 2), KeysOf(*data, Part::kTraining, {0, 2}));
  EXPECT_EQ(NextKeys(*first, 2), KeysOf(*data, Part::kTraining, {4}));
  EXPECT_EQ(NextKeys(*first, 2), KeysOf(*data, Part::kTraining, {}));
  const std::unique_ptr<SyntheticCtrStream> second = Open(*data, {Part::kTraining, 1, {1, 2}});
  EXPECT_EQ(NextKeys(*second, 9), KeysOf(*data, Part::kTraining, {1, 3}));
  EXPECT_EQ(NextKeys(*second, 9), KeysOf(*data, Part::kTraining, {}));
}

TEST(SyntheticCtrStreamTest, EndlessStreamBeginsAgain) {
  const std::unique_ptr<const SyntheticCtr> data = MakeData(5);
  const std::unique_ptr<SyntheticCtrStream> stream =
      Open(*data, {Part::kTraining, /*passes=*/0, {1, 2}});
  EXPECT_EQ(NextKeys(*stream, 5), KeysOf(*data, Part::kTraining, {1, 3, 1, 3, 1}));
}

TEST(SyntheticCtrStreamTest, EndsAfterItsPasses) {
  const std::unique_ptr<const SyntheticCtr> data = MakeData(5);
  const std::unique_ptr<SyntheticCtrStream> stream = Open(*data, {Part::kTraining, 2, {1, 2}});
  EXPECT_EQ(NextKeys(*stream, 9), KeysOf(*data, Part::kTraining, {1, 3, 1, 3}));
  EXPECT_EQ(NextKeys(*stream, 9), KeysOf(*data, Part::kTraining, {}));
}

TEST(SyntheticCtrStreamTest, HeldOutSamplesAreAPartOfTheirOwn) {
  const std::unique_ptr<const SyntheticCtr> data = MakeData(5);
  EXPECT_EQ(NextKeys(*Open(*data, {Part::kHeldOut, 1, {}}), 9),
            KeysOf(*data, Part::kHeldOut, {0, 1}));
}

TEST(SyntheticCtrStreamTest, WrongSharesAreRefused) {
  const std::unique_ptr<const SyntheticCtr> data = MakeData(5);
  EXPECT_THAT(
      SyntheticCtrStream::Create({Part::kTraining, 1, {2, 2}}, data.get()).status().message(),
      HasSubstr("expected a worker below the number of workers"));
  EXPECT_THAT(
      SyntheticCtrStream::Create({Part::kTraining, 1, {6, 7}}, data.get()).status().message(),
      HasSubstr("expected a sample for each of 7 workers, got 5"));
}

}  // namespace
}  // namespace capstan
