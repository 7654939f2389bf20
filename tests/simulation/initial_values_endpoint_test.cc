#include "tests/simulation/initial_values_endpoint.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/exchange/request_parts.h"

namespace capstan {
namespace {

class KeepingEndpoint : public ParameterEndpoint {
 public:
  explicit KeepingEndpoint(std::vector<ExchangeRequest>* asked) : asked_(asked) {}
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    asked_->push_back(std::move(request));
    delivered();
    done(ExchangeReply());
  }

 private:
  std::vector<ExchangeRequest>* const asked_;
};

class InitialValuesEndpointTest : public testing::Test {
 protected:
  void Pull(uint32_t worker, int64_t step, uint32_t slice = 0) {
    ExchangeRequest pull;
    pull.sender.worker = WorkerId(worker);
    pull.slice.slice = SliceIndex(slice);
    pull.purpose = MakeDenseStep(std::nullopt, Step(step));
    endpoint_->Exchange(
        std::move(pull), [] {}, [](const ExchangeReply&) {});
  }
  void Begin() {
    endpoint_ = std::make_unique<InitialValuesEndpoint>(
        program_, /*slice_size=*/2, &clock_, [this] { ++losses_; },
        std::make_unique<KeepingEndpoint>(&asked_));
  }

  FakeClock clock_;
  UserProgram program_;
  std::vector<ExchangeRequest> asked_;
  int losses_ = 0;
  std::unique_ptr<InitialValuesEndpoint> endpoint_;
};

TEST_F(InitialValuesEndpointTest, Worker0SendsEachSliceOnceAfterTheDelay) {
  program_.initial_unit = 10;
  program_.initial_delay = absl::Seconds(2);
  Begin();
  Pull(0, 0);
  Pull(0, 1);
  Pull(0, 0, /*slice=*/1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(asked_.size(), 3u);
  clock_.Advance(absl::Seconds(1));
  ASSERT_EQ(asked_.size(), 5u);
  ASSERT_TRUE(std::holds_alternative<InitialValues>(asked_[4].purpose));
  EXPECT_EQ(asked_[4].slice.slice, SliceIndex(1));
  std::vector<float> values(2);
  BroughtBy(asked_[4]).CopyTo(absl::MakeSpan(values));
  EXPECT_EQ(values, (std::vector<float>{20, 30}));
}

TEST_F(InitialValuesEndpointTest, TheySometimesComeTwiceOrFromWorker1) {
  program_.initial_again_after = absl::Seconds(1);
  program_.has_intruder = true;
  for (const auto& [worker, requests] : {std::pair(0, 3u), std::pair(1, 3u), std::pair(2, 1u)}) {
    asked_.clear();
    Begin();
    Pull(static_cast<uint32_t>(worker), 0);
    clock_.Advance(absl::ZeroDuration());
    EXPECT_EQ(asked_.size(), requests == 3 ? 2u : 1u) << "worker " << worker;
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(asked_.size(), requests) << "worker " << worker;
  }
}

TEST_F(InitialValuesEndpointTest, Worker0AloneIsLostAndOnce) {
  program_.worker_0_lives = absl::Seconds(1);
  for (const uint32_t worker : {1, 0}) {
    Begin();
    Pull(worker, 0);
    Pull(worker, 0, /*slice=*/1);
    clock_.Advance(absl::Seconds(2));
    EXPECT_EQ(losses_, worker == 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace capstan
