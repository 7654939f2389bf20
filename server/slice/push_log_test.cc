#include "server/slice/push_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

// A push of `step` with this gradient. Without elements: an empty one.
CheckedPush Push(Step step, const std::vector<float>& gradient) {
  CheckedPush push;
  push.step = step;
  const auto owned = std::make_shared<std::vector<float>>(gradient);
  if (!gradient.empty()) push.gradient = EncodedGradient(Payload(*owned, owned));
  return push;
}

std::vector<float> TakeMean(PushLog& log, Step step, size_t size) {
  std::vector<float> mean;
  log.TakeAll(step, [&mean, size](PushesOfStep pushes, const auto& /*memory*/) {
    ForEachBlockOfMean(pushes, size, [&mean](size_t offset, absl::Span<const float> block) {
      EXPECT_EQ(offset, mean.size());
      mean.insert(mean.end(), block.begin(), block.end());
    });
  });
  return mean;
}

std::vector<std::vector<float>> RandomGradients(uint64_t seed, size_t count, size_t size) {
  Random random(seed);
  std::vector<std::vector<float>> gradients(count, std::vector<float>(size));
  for (auto& gradient : gradients) {
    for (float& value : gradient) value = random.Normal() * 1e3f;
  }
  return gradients;
}

TEST(PushLogTest, TheMeanHasTheSameBitsWhateverTheOrderOfArrival) {
  const uint64_t seed = 11;
  const size_t size = 10000;  // several blocks, and a part of one
  const auto gradients = RandomGradients(seed, 5, size);
  std::vector<float> expected = gradients[0];
  for (size_t i = 0; i < size; ++i) {
    for (int worker = 1; worker < 5; ++worker) expected[i] += gradients[worker][i];
    expected[i] /= 5.0f;
  }
  std::vector<int> order = {0, 1, 2, 3, 4};
  do {
    PushLog log;
    for (const int worker : order) log.Add(WorkerId(worker), Push(Step(0), gradients[worker]));
    EXPECT_EQ(TakeMean(log, Step(0), size), expected) << "seed " << seed;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(PushLogTest, StepsAreKeptApart) {
  PushLog log;
  log.Add(WorkerId(0), Push(Step(4), {1}));
  log.Add(WorkerId(1), Push(Step(5), {10}));
  log.Add(WorkerId(1), Push(Step(4), {3}));
  EXPECT_EQ(TakeMean(log, Step(4), 1), std::vector<float>{2});
  EXPECT_EQ(log.First(), Step(5));
  EXPECT_EQ(TakeMean(log, Step(5), 1), std::vector<float>{10});
  EXPECT_EQ(log.First(), std::nullopt);
}

TEST(PushLogTest, PushesAreTakenOneByOneInOrderOfStepAndWorker) {
  PushLog log;
  EXPECT_FALSE(log.First().has_value());
  log.Add(WorkerId(0), Push(Step(4), {40}));
  log.Add(WorkerId(2), Push(Step(3), {32}));
  log.Add(WorkerId(1), Push(Step(3), {31}));
  std::vector<float> taken;
  while (const auto step = log.First()) {
    log.TakeOne(*step, [&taken, step](const CheckedPush& push, const auto& /*memory*/) {
      EXPECT_EQ(push.step, *step);
      taken.push_back(push.gradient->InPlace()->at(0));
    });
  }
  EXPECT_THAT(taken, ElementsAre(31, 32, 40));
}

TEST(PushLogTest, AnEmptyPushHasTheBitsOfZerosInTheMean) {
  const uint64_t seed = 12;
  const size_t size = 5000;  // a block, and a part of one
  auto gradients = RandomGradients(seed, 3, size);
  for (auto& gradient : gradients) gradient[7] = -0.0f;
  for (int empty = 0; empty < 3; ++empty) {
    PushLog log;
    std::vector<float> expected(size);  // of a gradient of zeros
    for (int worker = 0; worker < 3; ++worker) {
      log.Add(WorkerId(worker),
              Push(Step(0), worker == empty ? std::vector<float>() : gradients[worker]));
      for (size_t i = 0; i < size; ++i) expected[i] += worker == empty ? 0 : gradients[worker][i];
    }
    for (float& value : expected) value /= 3.0f;
    const std::vector<float> mean = TakeMean(log, Step(0), size);
    EXPECT_EQ(std::memcmp(mean.data(), expected.data(), size * sizeof(float)), 0)
        << "worker " << empty << " has none, seed " << seed;
  }
}

TEST(PushLogTest, EncodedGradientsAreAddedAsTheyAreDecoded) {
  const uint64_t seed = 13;
  const size_t size = 5000;
  const auto gradients = RandomGradients(seed, 2, size);
  const auto codec = MakeCodec("bfloat16").value();
  PushLog log;
  std::vector<float> expected(size);
  for (int worker = 0; worker < 2; ++worker) {
    const auto bytes = std::make_shared<std::vector<uint8_t>>(codec->EncodedBytes(size));
    ASSERT_TRUE(codec->Encode(gradients[worker], DrawKey(), {}, absl::MakeSpan(*bytes)).ok());
    std::vector<float> decoded(size);
    codec->Decode(*bytes, size, 0, absl::MakeSpan(decoded));
    for (size_t i = 0; i < size; ++i) expected[i] += decoded[i];
    Payload payload(bytes);
    payload.Append(*bytes);
    CheckedPush push;
    push.gradient =
        EncodedGradient::Check({std::move(payload), codec->type()}, *codec, size).value();
    log.Add(WorkerId(worker), std::move(push));
  }
  EXPECT_EQ(log.size_bytes(), 2 * size * 2) << "they stay encoded";
  for (float& value : expected) value /= 2.0f;
  EXPECT_EQ(TakeMean(log, Step(0), size), expected) << "seed " << seed;
}

TEST(PushLogTest, WhatTheSenderDoesWithItsMemoryLaterChangesNothing) {
  const auto memory = std::make_shared<std::vector<float>>(3, 1.0f);
  CheckedPush push;
  push.gradient = EncodedGradient(Payload(*memory, memory));
  PushLog log;
  log.Add(WorkerId(0), std::move(push));
  std::fill(memory->begin(), memory->end(), 2.0f);
  EXPECT_EQ(TakeMean(log, Step(0), 3), std::vector<float>(3, 1.0f));
}

TEST(PushLogTest, ASnapshotHasEverythingOfEachPush) {
  PushLog log;
  CheckedPush rows = Push(Step(4), {1, 2});
  rows.base_version = 7;
  rows.rates = {/*learning_rate=*/0.5, /*momentum=*/0.75};
  rows.keys = std::make_shared<const std::vector<uint64_t>>(std::vector<uint64_t>{3});
  log.Add(WorkerId(2), std::move(rows));
  CheckedPush empty = Push(Step(4), {});
  empty.rates.learning_rate = 0.25;
  log.Add(WorkerId(1), std::move(empty));
  SliceSnapshot snapshot;
  log.Save(snapshot);
  ASSERT_EQ(snapshot.kept.size(), 2u);
  EXPECT_EQ(snapshot.kept[0].worker, WorkerId(1));
  EXPECT_TRUE(snapshot.kept[0].is_empty);

  PushLog restored;
  restored.Load(snapshot);
  restored.TakeAll(Step(4), [](PushesOfStep pushes, const auto& /*memory*/) {
    ASSERT_EQ(pushes.size(), 2u);
    EXPECT_FALSE(pushes[0]->gradient.has_value());
    EXPECT_EQ(pushes[0]->rates.learning_rate, 0.25);
    EXPECT_EQ(pushes[1]->base_version, 7u);
    EXPECT_EQ(pushes[0]->rates.momentum, std::nullopt);
    EXPECT_EQ(pushes[1]->rates.learning_rate, 0.5);
    EXPECT_EQ(pushes[1]->rates.momentum, 0.75);
    EXPECT_THAT(*pushes[1]->keys, ElementsAre(3));
    EXPECT_THAT(pushes[1]->gradient->Decoded(), ElementsAre(1, 2));
  });
}

TEST(PushLogTest, EmptyPushesHoldNoMemory) {
  PushLog log;
  log.Add(WorkerId(0), Push(Step(0), {}));
  EXPECT_EQ(log.size_bytes(), 0u);
  EXPECT_EQ(log.First(), Step(0));
  log.TakeOne(Step(0), [](const CheckedPush& push, const auto& /*memory*/) {
    EXPECT_FALSE(push.gradient.has_value());
  });
  EXPECT_EQ(log.First(), std::nullopt);
}

}  // namespace
}  // namespace capstan
