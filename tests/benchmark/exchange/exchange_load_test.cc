#include "tests/benchmark/exchange/exchange_load.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/fake_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "server/shard/shard_host.h"

namespace capstan {
namespace {

// Changes the replies of a shard host on their way.
class ChangingEndpoint : public ParameterEndpoint {
 public:
  using Change = std::function<void(std::vector<float>& values, uint64_t& version)>;

  ChangingEndpoint(ParameterEndpoint* host, Change change)
      : host_(host), change_(std::move(change)) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    host_->Exchange(std::move(request), std::move(delivered),
                    [this, done = std::move(done)](ExchangeReply reply) mutable {
                      auto values = std::make_shared<std::vector<float>>(reply.values.size_bytes() /
                                                                         sizeof(float));
                      reply.values.CopyTo(absl::MakeSpan(*values));
                      change_(*values, reply.version);
                      reply.values = Payload(absl::MakeConstSpan(*values), values);
                      done(std::move(reply));
                    });
  }

 private:
  ParameterEndpoint* const host_;
  const Change change_;
};

// The status after one exchange of each part.
absl::Status Exchange(const std::string& optimizer, const ChangingEndpoint::Change& change) {
  ExchangeLoad load;
  load.bytes = 64;
  load.slice_bytes = 32;
  load.inflight = 2;
  load.optimizer = optimizer;
  const std::unique_ptr<ShardHost> host = load.Job().MakeHost(/*server=*/0).value();
  FakeClock clock;
  const auto client = load.Job().MakeClient(
      {"host"},
      [&](const std::string&) { return std::make_unique<ChangingEndpoint>(host.get(), change); },
      &clock);
  return RunExchanges(load, /*worker=*/0, client.get(), clock.Now(), /*end=*/clock.Now(), &clock)
      .status();
}

TEST(ExchangeLoadTest, ValuesAreThoseThatTheUpdatesMake) {
  for (const std::string optimizer : {"sgd", "momentum", "adam"}) {
    EXPECT_TRUE(Exchange(optimizer, [](std::vector<float>&, uint64_t&) {}).ok()) << optimizer;
  }
}

TEST(ExchangeLoadTest, OneWrongValueIsNoticed) {
  const absl::Status status =
      Exchange("sgd", [](std::vector<float>& values, uint64_t&) { values.back() = 1; });
  EXPECT_EQ(status.message(), "slice 0 of an exchange: expected -1e-08 after 1 updates, got 1");
}

TEST(ExchangeLoadTest, APushThatIsLostOrAppliedTwiceIsNoticed) {
  for (const uint64_t applied : {0, 2}) {
    const absl::Status status =
        Exchange("sgd", [applied](std::vector<float>&, uint64_t& version) { version = applied; });
    EXPECT_EQ(status.message(),
              absl::StrCat("slice 0 of an exchange: expected 1 updates, got ", applied));
  }
}

}  // namespace
}  // namespace capstan
