#include "worker/dataset/sparse/prefetching_stream.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "worker/dataset/sparse/sparse_text_parser.h"
#include "worker/dataset/sparse/standard_input.h"
#include "worker/dataset/sparse/text_sample_stream.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

// Batches of one sample with the keys 0, 1, ..., `count` - 1, and then `end`.
class NumberStream : public SampleStream {
 public:
  NumberStream(uint64_t count, absl::StatusOr<size_t> end, std::atomic<uint64_t>* calls)
      : count_(count), end_(std::move(end)), calls_(*calls) {}

  absl::StatusOr<size_t> Next(size_t, SparseBatch* batch) override {
    batch->Clear();
    const uint64_t call = calls_++;
    if (call >= count_) return end_;
    batch->AddKey(call, 1.0f);
    batch->EndSample(0);
    return 1;
  }
  // Grows with each batch.
  uint64_t pass_samples() const override { return calls_; }
  void Cancel() override {}

 private:
  const uint64_t count_;
  const absl::StatusOr<size_t> end_;
  std::atomic<uint64_t>& calls_;
};

std::unique_ptr<PrefetchingStream> Make(std::unique_ptr<SampleStream> source, Clock* clock,
                                        PrefetchingStream::Options options = {1, 2}) {
  absl::StatusOr<std::unique_ptr<PrefetchingStream>> stream =
      PrefetchingStream::Create(options, std::move(source), clock);
  CHECK(stream.ok()) << stream.status();
  return *std::move(stream);
}

TEST(PrefetchingStreamTest, TheLengthOfAPassIsThatOfTheBatchTaken) {
  RealClock clock;
  std::atomic<uint64_t> calls = 0;
  const std::unique_ptr<PrefetchingStream> stream =
      Make(std::make_unique<NumberStream>(3, /*end=*/0, &calls), &clock);
  EXPECT_EQ(stream->pass_samples(), 0u);
  SparseBatch batch;
  for (uint64_t call = 1; call <= 4; ++call) {
    ASSERT_TRUE(stream->Next(1, &batch).ok());
    EXPECT_EQ(stream->pass_samples(), call) << "not of batches that were read ahead";
  }
}

TEST(PrefetchingStreamTest, BatchesAndTheEndArriveInOrder) {
  RealClock clock;
  std::atomic<uint64_t> calls = 0;
  const std::unique_ptr<PrefetchingStream> stream =
      Make(std::make_unique<NumberStream>(100, /*end=*/0, &calls), &clock);
  SparseBatch batch;
  for (uint64_t i = 0; i < 100; ++i) {
    const absl::StatusOr<size_t> count = stream->Next(/*most=*/1, &batch);
    ASSERT_TRUE(count.ok()) << count.status();
    ASSERT_EQ(*count, 1u);
    EXPECT_THAT(batch.keys(), ElementsAre(i));
  }
  for (int repetition = 0; repetition < 2; ++repetition) {
    const absl::StatusOr<size_t> count = stream->Next(1, &batch);
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, 0u);
    EXPECT_EQ(batch.size(), 0u);
  }
}

TEST(PrefetchingStreamTest, ErrorArrivesAfterTheBatchesBeforeIt) {
  RealClock clock;
  std::atomic<uint64_t> calls = 0;
  const std::unique_ptr<PrefetchingStream> stream = Make(
      std::make_unique<NumberStream>(2, absl::DataLossError("broken"), &calls), &clock, {1, 10});
  SparseBatch batch;
  EXPECT_TRUE(stream->Next(1, &batch).ok());
  EXPECT_TRUE(stream->Next(1, &batch).ok());
  EXPECT_EQ(stream->Next(1, &batch).status(), absl::DataLossError("broken"));
  EXPECT_EQ(stream->Next(1, &batch).status(), absl::DataLossError("broken"));
  EXPECT_EQ(calls, 3u);
}

TEST(PrefetchingStreamTest, ReadsNoFurtherAheadThanAllowed) {
  RealClock clock;
  std::atomic<uint64_t> calls = 0;
  const std::unique_ptr<PrefetchingStream> stream =
      Make(std::make_unique<NumberStream>(1000, /*end=*/0, &calls), &clock, {1, 3});
  SparseBatch batch;
  for (uint64_t taken = 1; taken <= 100; ++taken) {
    ASSERT_TRUE(stream->Next(1, &batch).ok());
    EXPECT_LE(calls, taken + 3);
  }
}

TEST(PrefetchingStreamTest, DestructorEndsAThreadThatWaitsForRoom) {
  RealClock clock;
  std::atomic<uint64_t> calls = 0;
  std::unique_ptr<PrefetchingStream> stream =
      Make(std::make_unique<NumberStream>(1000, /*end=*/0, &calls), &clock);
  while (calls < 2) SleepUntil(clock, clock.Now() + absl::Milliseconds(1));
  stream = nullptr;
  EXPECT_EQ(calls, 2u) << "it read on";
}

// A source that has no batch until it is cancelled.
class SilentStream : public SampleStream {
 public:
  struct State {
    explicit State(Clock* clock) : clock(*clock), is_asked(clock), is_cancelled(clock) {}
    Clock& clock;
    OneShot<bool> is_asked;
    OneShot<bool> is_cancelled;
    std::atomic<bool> has_answered = false;
  };
  explicit SilentStream(State* state) : state_(*state) {}

  absl::StatusOr<size_t> Next(size_t, SparseBatch*) override {
    state_.is_asked.Set(true);
    state_.is_cancelled.Wait();
    // Who does not wait for the answer is gone by then.
    SleepUntil(state_.clock, state_.clock.Now() + absl::Milliseconds(20));
    state_.has_answered = true;
    return absl::CancelledError("cancelled");
  }
  uint64_t pass_samples() const override { return 0; }
  void Cancel() override { state_.is_cancelled.Set(true); }

 private:
  State& state_;
};

TEST(PrefetchingStreamTest, DestructorEndsAThreadThatWaitsForInput) {
  RealClock clock;
  SilentStream::State source(&clock);
  std::unique_ptr<PrefetchingStream> stream = Make(std::make_unique<SilentStream>(&source), &clock);
  source.is_asked.Wait();
  stream = nullptr;
  EXPECT_TRUE(source.has_answered) << "it did not wait for its thread";
}

TEST(PrefetchingStreamTest, CancelEndsAWaitingNext) {
  StandardInput input;
  RealClock clock;
  TextSampleStream::Options options;
  options.path = "-";
  absl::StatusOr<std::unique_ptr<TextSampleStream>> source =
      TextSampleStream::Create(options, MakeLibsvmLineParser({}));
  ASSERT_TRUE(source.ok()) << source.status();
  const std::unique_ptr<PrefetchingStream> stream = Make(*std::move(source), &clock);
  std::thread canceller([&stream] { stream->Cancel(); });
  SparseBatch batch;
  EXPECT_EQ(stream->Next(1, &batch).status().code(), absl::StatusCode::kCancelled);
  canceller.join();
}

TEST(PrefetchingStreamTest, WrongSizesAreRefused) {
  RealClock clock;
  std::atomic<uint64_t> calls = 0;
  EXPECT_EQ(PrefetchingStream::Create({0, 2}, nullptr, &clock).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PrefetchingStream::Create({1, 0}, nullptr, &clock).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::unique_ptr<PrefetchingStream> stream =
      Make(std::make_unique<NumberStream>(1000, /*end=*/0, &calls), &clock, {10, 1});
  SparseBatch batch;
  EXPECT_EQ(stream->Next(9, &batch).status().message(),
            "expected batches of at least 10 samples, as they are read ahead, got 9: ask for more "
            "samples");
}

}  // namespace
}  // namespace capstan
