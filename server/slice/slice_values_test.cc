#include "server/slice/slice_values.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/exchange/payload_floats.h"

namespace capstan {
namespace {

constexpr size_t kSize = 100;

void Fill(SliceValues& values, float value) {
  for (float& element : values.BeginChange().to) element = value;
}

TEST(SliceValuesTest, AreWrittenInPlaceWhenNobodyReads) {
  SliceValues values{HostBuffer(kSize)};
  const float* const place = values.span().data();
  Fill(values, 1);
  { const Payload let_go = values.Share(); }
  Fill(values, 2);
  EXPECT_EQ(values.span().data(), place);
  EXPECT_EQ(Floats(values.Share()), std::vector<float>(kSize, 2));
}

TEST(SliceValuesTest, WhatIsSharedStaysAsItIs) {
  SliceValues values{HostBuffer(kSize)};
  std::vector<Payload> shared;
  for (int version = 0; version < 5; ++version) {
    Fill(values, static_cast<float>(version));
    shared.push_back(values.Share());
    shared.push_back(shared.back());
  }
  for (int version = 0; version < 5; ++version) {
    EXPECT_EQ(Floats(shared[2 * version]), std::vector<float>(kSize, version));
    EXPECT_EQ(Floats(shared[2 * version + 1]), std::vector<float>(kSize, version));
  }
}

TEST(SliceValuesTest, AChangeBeginsWithTheValuesBefore) {
  SliceValues values{HostBuffer(kSize)};
  Fill(values, 3);
  const SliceValues::Change in_place = values.BeginChange();
  EXPECT_EQ(in_place.from.data(), in_place.to.data());
  std::optional<Payload> shared = values.Share();
  const SliceValues::Change change = values.BeginChange();
  EXPECT_NE(change.from.data(), change.to.data());
  EXPECT_EQ(change.from.size(), kSize);
  shared.reset();  // the values before stay for the change
  EXPECT_EQ(std::vector<float>(change.from.begin(), change.from.end()),
            std::vector<float>(kSize, 3));
}

TEST(SliceValuesTest, BuffersAreUsedAgain) {
  SliceValues values{HostBuffer(kSize)};
  std::optional<Payload> first = values.Share();
  const float* const place = values.span().data();
  Fill(values, 1);
  EXPECT_NE(values.span().data(), place);
  first.reset();
  const Payload second = values.Share();
  Fill(values, 2);
  EXPECT_EQ(values.span().data(), place);
}

// The bound on memory while a checkpoint is written.
TEST(SliceValuesTest, ASnapshotCostsOneMoreBuffer) {
  SliceValues values{HostBuffer(kSize)};
  std::set<const float*> places = {values.span().data()};
  for (int checkpoint = 0; checkpoint < 3; ++checkpoint) {
    const Payload snapshot = values.Share();
    for (int update = 0; update < 5; ++update) {
      Fill(values, static_cast<float>(update));
      places.insert(values.span().data());
    }
  }
  EXPECT_EQ(places.size(), 2u);
}

// Replies need a second one anyway.
TEST(SliceValuesTest, ASnapshotCostsOneMoreBufferBesideReplies) {
  SliceValues values{HostBuffer(kSize)};
  const Payload snapshot = values.Share();
  std::set<const float*> places = {values.span().data()};
  Payload reply;
  for (int update = 0; update < 10; ++update) {
    Fill(values, static_cast<float>(update));
    places.insert(values.span().data());
    reply = values.Share();  // the one before is released
  }
  EXPECT_EQ(places.size(), 3u);
}

TEST(SliceValuesTest, PayloadsOutliveTheValues) {
  std::optional<SliceValues> values(HostBuffer{kSize});
  Fill(*values, 5);
  const Payload shared = values->Share();
  values.reset();
  EXPECT_EQ(Floats(shared), std::vector<float>(kSize, 5));
}

// For ThreadSanitizer: a reader on another thread, while updates go on.
TEST(SliceValuesTest, ReadersOfOtherThreadsSeeWholeVersions) {
  SliceValues values{HostBuffer(kSize)};
  Mutex mu;
  std::vector<Payload> to_read;
  bool is_over = false;
  std::thread reader([&] {
    while (true) {
      std::vector<Payload> payloads;
      {
        MutexLock lock(&mu);
        if (is_over && to_read.empty()) return;
        payloads.swap(to_read);
      }
      for (const Payload& payload : payloads) {
        const std::vector<float> floats = Floats(payload);
        EXPECT_EQ(floats, std::vector<float>(kSize, floats[0]));
      }
    }
  });
  for (int version = 0; version < 2000; ++version) {
    Fill(values, static_cast<float>(version));
    MutexLock lock(&mu);
    to_read.push_back(values.Share());
  }
  {
    MutexLock lock(&mu);
    is_over = true;
  }
  reader.join();
}

TEST(InitializeValuesTest, ValuesDoNotDependOnTheSlicing) {
  std::vector<float> whole(1000), pieces(1000);
  InitializeValues(/*seed=*/7, TableId(3), /*stddev=*/0.5, /*offset=*/0, absl::MakeSpan(whole));
  for (size_t offset = 0; offset < 1000; offset += 30) {
    InitializeValues(/*seed=*/7, TableId(3), /*stddev=*/0.5, offset,
                     absl::MakeSpan(pieces).subspan(offset, 30));
  }
  EXPECT_EQ(whole, pieces);
}

TEST(InitializeValuesTest, ValuesAreNormalWithTheGivenDeviation) {
  std::vector<float> values(200'000);
  InitializeValues(/*seed=*/7, TableId(0), /*stddev=*/0.5, /*offset=*/0, absl::MakeSpan(values));
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / values.size(), 0.0, 0.005);
  EXPECT_NEAR(squares / values.size(), 0.25, 0.005);
}

TEST(InitializeValuesTest, TablesAndSeedsDiffer) {
  std::vector<float> a(4), b(4), c(4);
  InitializeValues(/*seed=*/1, TableId(0), /*stddev=*/1, /*offset=*/0, absl::MakeSpan(a));
  InitializeValues(/*seed=*/1, TableId(1), /*stddev=*/1, /*offset=*/0, absl::MakeSpan(b));
  InitializeValues(/*seed=*/2, TableId(0), /*stddev=*/1, /*offset=*/0, absl::MakeSpan(c));
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}

TEST(InitializeValuesTest, NoDeviationMeansZeros) {
  std::vector<float> values(5, 1.0f);
  InitializeValues(/*seed=*/1, TableId(0), /*stddev=*/0, /*offset=*/0, absl::MakeSpan(values));
  EXPECT_EQ(values, std::vector<float>(5, 0.0f));
}

}  // namespace
}  // namespace capstan
