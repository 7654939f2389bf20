#include "worker/client/worker_exchanges.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <thread>

#include "common/base/fake_clock.h"
#include "common/scheduler/transfer_queue.h"

namespace capstan {
namespace {

constexpr TableId kRows(1);

class WorkerExchangesTest : public testing::Test {
 protected:
  WorkerExchangesTest()
      : scheduler_(1 << 20, MakeTransferQueue(v1::SchedulerSpec::PRIORITY)),
        exchanges_({&clock_, &NoClient(), &scheduler_, Sender()}, /*layer_count=*/1,
                   /*table_count=*/2) {}

  class NoClientEndpoint : public ParameterEndpoint {
   public:
    void Exchange(ExchangeRequest&&, DeliveredCallback, ReplyCallback) override { FAIL(); }
  };
  static ParameterEndpoint& NoClient() {
    static auto& client = *new NoClientEndpoint();
    return client;
  }

  // How many threads wait: each adds its part of a nanosecond that passes.
  int64_t Waiters() {
    const absl::Duration before = exchanges_.waiting();
    clock_.Advance(absl::Nanoseconds(1));
    return absl::ToInt64Nanoseconds(exchanges_.waiting() - before);
  }
  bool IsDone(size_t group) { return exchanges_.WaitFor(group, absl::ZeroDuration()).value(); }

  FakeClock clock_;
  Scheduler scheduler_;
  WorkerExchanges exchanges_;
};

TEST_F(WorkerExchangesTest, LayersAndSparseTablesAreGroupsOfTheirOwn) {
  const size_t rows = exchanges_.GroupOf(kRows);
  exchanges_.Open(/*group=*/0, /*exchanges=*/2);
  exchanges_.Open(rows, /*exchanges=*/1);
  exchanges_.Close(/*group=*/0, absl::OkStatus());
  EXPECT_FALSE(IsDone(0));
  exchanges_.Close(/*group=*/0, absl::OkStatus());
  EXPECT_TRUE(IsDone(0));
  EXPECT_TRUE(exchanges_.IsOpen(rows));
  EXPECT_FALSE(IsDone(rows));
  exchanges_.Close(rows, absl::OkStatus());
  EXPECT_FALSE(exchanges_.IsOpen(rows));
  EXPECT_TRUE(exchanges_.WaitForAll().ok());
}

TEST_F(WorkerExchangesTest, TheFirstErrorOfAnyGroupEndsTheWaitsOfAll) {
  exchanges_.Open(/*group=*/0, /*exchanges=*/1);
  exchanges_.Open(exchanges_.GroupOf(kRows), /*exchanges=*/1);
  exchanges_.Close(exchanges_.GroupOf(kRows), absl::NotFoundError("first"));
  exchanges_.Fail(absl::InternalError("second"));
  EXPECT_EQ(exchanges_.WaitFor(/*group=*/0, absl::InfiniteDuration()).status(),
            absl::NotFoundError("first"));
  EXPECT_EQ(exchanges_.WaitForAll(), absl::NotFoundError("first"));
}

TEST_F(WorkerExchangesTest, RatesAreThoseOfOneTable) {
  exchanges_.SetLearningRate(kRows, 0.5);
  exchanges_.SetMomentum(TableId(0), 0.75);
  EXPECT_EQ(exchanges_.RatesOf(kRows).learning_rate, 0.5);
  EXPECT_EQ(exchanges_.RatesOf(kRows).momentum, std::nullopt);
  EXPECT_EQ(exchanges_.RatesOf(TableId(0)).learning_rate, std::nullopt);
  EXPECT_EQ(exchanges_.RatesOf(TableId(0)).momentum, 0.75);
}

TEST_F(WorkerExchangesTest, WaitsOfSeveralThreadsAreAddedUp) {
  const size_t rows = exchanges_.GroupOf(kRows);
  exchanges_.Open(/*group=*/0, /*exchanges=*/1);
  exchanges_.Open(rows, /*exchanges=*/1);
  const auto wait = [this](size_t group) {
    EXPECT_TRUE(exchanges_.WaitFor(group, absl::InfiniteDuration()).value());
  };
  std::thread layer(wait, 0);
  std::thread table(wait, rows);
  while (Waiters() < 2) std::this_thread::yield();
  const absl::Duration both = exchanges_.waiting();
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(exchanges_.waiting() - both, absl::Seconds(6));
  exchanges_.Close(rows, absl::OkStatus());
  table.join();
  EXPECT_EQ(exchanges_.waiting() - both, absl::Seconds(6)) << "the other one still waits";
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(exchanges_.waiting() - both, absl::Seconds(7));
  exchanges_.Close(/*group=*/0, absl::OkStatus());
  layer.join();
  EXPECT_EQ(exchanges_.waiting() - both, absl::Seconds(7));
}

}  // namespace
}  // namespace capstan
