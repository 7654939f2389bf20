// What a trace tells of a store's exchanges.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"
#include "common/scheduler/transfer_queue.h"
#include "common/trace/tracer.h"
#include "worker/client/parameter_store.h"

namespace capstan {
namespace {

// Phase, name, time and arguments of each event of an exchange.
std::string ExchangeEvents(const std::string& path) {
  std::string text;
  std::ifstream file(path);
  for (const nlohmann::json& event : nlohmann::json::parse(file)) {
    if (event["ph"] == "M") continue;
    absl::StrAppend(&text, event["ph"].get<std::string>(), " ", event["name"].get<std::string>(),
                    " ", event["ts"].get<double>());
    if (event.contains("args") && !event["args"].empty()) {
      absl::StrAppend(&text, " ", event["args"].dump());
    }
    text += "\n";
  }
  return text;
}

// bfloat16 with times of its own.
class SlowCodec : public Codec {
 public:
  explicit SlowCodec(FakeClock* clock) : clock_(clock) {}
  CodecType type() const override { return inner_->type(); }
  std::string name() const override { return inner_->name(); }
  size_t EncodedBytes(size_t n) const override { return inner_->EncodedBytes(n); }
  absl::StatusOr<Norms> Encode(absl::Span<const float> values, const DrawKey& key,
                               absl::Span<float> residual,
                               absl::Span<uint8_t> bytes) const override {
    clock_->Advance(absl::Microseconds(5));
    return inner_->Encode(values, key, residual, bytes);
  }
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t n) const override {
    return inner_->Check(bytes, n);
  }
  void Decode(absl::Span<const uint8_t> bytes, size_t n, size_t begin,
              absl::Span<float> values) const override {
    clock_->Advance(absl::Microseconds(7));
    inner_->Decode(bytes, n, begin, values);
  }
  void DecodeAdd(absl::Span<const uint8_t>, size_t, size_t, absl::Span<float>) const override {}

 private:
  FakeClock* const clock_;
  const std::shared_ptr<const Codec> inner_ = MakeCodec("bfloat16").value();
};

// Three values of 1 in bfloat16.
ExchangeReply EncodedOnes() {
  auto bytes = std::make_shared<std::vector<uint8_t>>(
      std::vector<uint8_t>{0x80, 0x3f, 0x80, 0x3f, 0x80, 0x3f});
  ExchangeReply reply;
  reply.codec = CodecType::kBfloat16;
  reply.values = Payload(bytes);
  reply.values.Append(absl::MakeConstSpan(*bytes));
  return reply;
}

// Three values of 1.
ExchangeReply Ones() {
  auto values = std::make_shared<std::vector<float>>(3, 1.0f);
  ExchangeReply reply;
  reply.values = Payload(absl::MakeConstSpan(*values), values);
  return reply;
}

// Needs a time for each request. The test answers.
class SlowEndpoint : public ParameterEndpoint {
 public:
  explicit SlowEndpoint(FakeClock* clock) : clock_(clock) {}
  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    clock_->Advance(absl::Microseconds(20));
    delivered();
    asked.push_back(std::move(done));
  }

  std::vector<ReplyCallback> asked;

 private:
  FakeClock* const clock_;
};

// One table of 3 floats.
class ParameterStoreTraceTest : public testing::Test {
 protected:
  ParameterStoreTraceTest() {
    options_.clock = &clock_;
    options_.client = &server_;
    options_.scheduler = &scheduler_;
    options_.slice_bytes = 64;
    options_.tables.resize(1);
    options_.tables[0].set_name("fc2.weight");
    options_.tables[0].add_shape(3);
    options_.tracer = tracer_.get();
  }

  static std::string Path() {
    return testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  static std::unique_ptr<Tracer> NewTracer(Clock* clock) {
    Tracer::Options options;
    options.path = Path();
    options.clock = clock;
    return Tracer::Create(options).value();
  }

  std::string Events() {
    EXPECT_TRUE(tracer_->Finish().ok());
    return ExchangeEvents(Path());
  }

  FakeClock clock_;
  const std::unique_ptr<Tracer> tracer_ = NewTracer(&clock_);
  SlowEndpoint server_{&clock_};
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<FifoQueue>()};
  ParameterStore::Options options_;
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(ParameterStoreTraceTest, TellsHowLongASliceQueuedWasSentAndWasAwaited) {
  store_ = ParameterStore::Create(options_).value();
  // Until its `delivered`, nothing else starts.
  Transfer blocker;
  blocker.bytes = 1 << 20;
  absl::AnyInvocable<void()> blocker_delivered;
  blocker.start = [&](absl::AnyInvocable<void()> delivered) {
    blocker_delivered = std::move(delivered);
  };
  scheduler_.Submit(std::move(blocker));
  store_->PushPull(/*layer=*/0, Step(6));
  clock_.Advance(absl::Microseconds(300));
  blocker_delivered();
  clock_.Advance(absl::Microseconds(1000));
  ASSERT_EQ(server_.asked.size(), 1u);
  server_.asked[0](Ones());
  EXPECT_EQ(Events(),
            R"(b fc2.weight 0 {"bytes_float32":12,"bytes_pulled":12,"bytes_pushed":12,"layer":0,)"
            R"("pull_step":7,"push_step":6,"slice":0})"
            "\n"
            "b queue 0\ne queue 300\n"
            "b send 300\ne send 320\n"
            "b server and reply 320\ne server and reply 1320\n"
            "e fc2.weight 1320\n");
}

TEST_F(ParameterStoreTraceTest, TellsHowLongCodecsTook) {
  options_.codecs.resize(1);
  options_.codecs[0].push = options_.codecs[0].pull = std::make_shared<SlowCodec>(&clock_);
  store_ = ParameterStore::Create(options_).value();
  store_->PushPull(/*layer=*/0, Step(6));
  clock_.Advance(absl::ZeroDuration());
  ASSERT_EQ(server_.asked.size(), 1u);
  server_.asked[0](EncodedOnes());
  ASSERT_TRUE(store_->WaitForLayer(0).ok());
  EXPECT_EQ(store_->values()[0][2], 1.0f);
  EXPECT_EQ(Events(),
            R"(b fc2.weight 0 {"bytes_float32":12,"bytes_pulled":6,"bytes_pushed":6,"layer":0,)"
            R"("pull_step":7,"push_step":6,"slice":0})"
            "\n"
            "b queue 0\ne queue 0\n"
            "b encode 0\ne encode 5\n"
            "b queue 5\ne queue 5\n"
            "b send 5\ne send 25\n"
            "b server and reply 25\ne server and reply 25\n"
            "b decode 25\ne decode 32\n"
            "e fc2.weight 32\n");
  EXPECT_EQ(store_->traffic().coding, absl::Microseconds(12));
  EXPECT_EQ(store_->traffic().float_bytes_pushed, 12u);
  EXPECT_EQ(store_->traffic().float_bytes_pulled, 12u);
}

}  // namespace
}  // namespace capstan
