// Slices whose pushes and pulls are encoded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/random.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/request_parts.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/update_scale.h"
#include "server/slice/dense_slice.h"
#include "server/slice/slice_state.h"

namespace capstan {
namespace {

constexpr int kWorkers = 3;
constexpr size_t kSize = 10001;  // several blocks, and a part of one
constexpr uint64_t kSeed = 77;

// SGD at rate 1 turns a gradient g into values - g.
std::unique_ptr<Optimizer> MakeSgd() {
  v1::OptimizerSpec spec;
  spec.set_type(v1::OptimizerSpec::SGD);
  spec.set_learning_rate(1);
  return MakeOptimizer(spec).value();
}

std::vector<uint8_t> Encode(const Codec& codec, const std::vector<float>& values, int worker) {
  std::vector<uint8_t> bytes(codec.EncodedBytes(values.size()));
  DrawKey key;
  key.worker = WorkerId(static_cast<uint32_t>(worker));
  EXPECT_TRUE(codec.Encode(values, key, {}, absl::MakeSpan(bytes)).ok());
  return bytes;
}

std::vector<float> Decode(const Codec& codec, absl::Span<const uint8_t> bytes) {
  std::vector<float> values(kSize);
  EXPECT_TRUE(codec.Check(bytes, kSize).ok());
  codec.Decode(bytes, kSize, 0, absl::MakeSpan(values));
  return values;
}

class SliceCodecTest : public testing::TestWithParam<std::string> {
 protected:
  SliceCodecTest() : codec_(MakeCodec(GetParam()).value()) {
    Random random(kSeed);
    for (int worker = 0; worker < kWorkers; ++worker) {
      std::vector<float> gradient(kSize);
      for (float& element : gradient) element = random.Normal();
      pushes_.push_back(Encode(*codec_, gradient, worker));
      gradients_.push_back(Decode(*codec_, pushes_.back()));
    }
  }

  std::unique_ptr<Slice> MakeSlice(ConsistencyMode mode, const std::string& pull = "float32") {
    const ConsistencyPeriod period = {Step(0), mode};
    DenseSlice::Options options;
    options.slice.update_scale = UpdateScale::kSum;
    options.slice.name = "slice 0 of w";
    options.memory = SliceState::Allocate(kSize, optimizer_.get()).value();
    options.optimizer = optimizer_.get();
    options.slice.schedule = MakeConsistencySchedule({&period, 1}).value();
    options.slice.non_finite_pushes = &non_finite_pushes_;
    options.codecs.push = codec_;
    options.codecs.is_auto_push = is_auto_;
    options.codecs.pull = MakeCodec(pull).value();
    options.reply_state = &reply_state_;
    options.keeps_open_step = keeps_open_step_;
    return std::make_unique<DenseSlice>(std::move(options));
  }

  std::unique_ptr<Slice> MakeSliceWithWorkers(ConsistencyMode mode,
                                              const std::string& pull = "float32") {
    std::unique_ptr<Slice> slice = MakeSlice(mode, pull);
    ReleasedReplies none;
    for (int worker = 0; worker < kWorkers; ++worker) slice->AddWorkers({WorkerId(worker)}, &none);
    return slice;
  }

  // The worker's push of step 0, received in two pieces, with a pull.
  ExchangeRequest Request(int worker) const {
    const auto bytes = std::make_shared<std::vector<uint8_t>>(pushes_[worker]);
    Payload payload(bytes);
    const size_t cut = bytes->size() / 3;
    payload.Append(absl::MakeConstSpan(*bytes).first(cut));
    payload.Append(absl::MakeConstSpan(*bytes).subspan(cut));
    ExchangeRequest request;
    request.sender.worker = WorkerId(static_cast<uint32_t>(worker));
    request.purpose = DenseStep{StepPush{Step(0), Gradient{std::move(payload), codec_->type()}},
                                StepPull{Step(1)}};
    return request;
  }

  // A pull of step 0 by a worker without values. Returns the number of the copy that it then has.
  uint64_t FirstCopy(Slice& slice, int worker) {
    ExchangeRequest request;
    request.sender.worker = WorkerId(static_cast<uint32_t>(worker));
    request.purpose = DenseStep{std::nullopt, StepPull{Step(0)}};
    Send(slice, std::move(request));
    const ExchangeReply reply = std::move(replies_.back());
    replies_.pop_back();
    EXPECT_EQ(reply.codec, CodecType::kFloat32) << reply.status;
    EXPECT_EQ(Floats(reply.values), std::vector<float>(kSize));
    return reply.copy;
  }
  ExchangeRequest Request(int worker, uint64_t copy) const {
    ExchangeRequest request = Request(worker);
    DenseStepOf(request).copy = copy;
    return request;
  }

  // Exchanges; replies come into `replies_`.
  void Send(Slice& slice, ExchangeRequest request) {
    ReleasedReplies released;
    slice.Exchange(
        std::move(request), [this](ExchangeReply reply) { replies_.push_back(std::move(reply)); },
        &released);
    for (auto& [done, reply] : released) done(std::move(reply));
  }

  absl::Status ErrorOf(ExchangeRequest request) {
    const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kBsp);
    replies_.clear();
    Send(*slice, std::move(request));
    EXPECT_EQ(replies_.size(), 1u);
    EXPECT_EQ(slice->next_step(WorkerId(0)), Step(0)) << "a refused push counts as none";
    return replies_.empty() ? absl::OkStatus() : replies_[0].status;
  }

  // -((0 + g0) + g1 ...) / n in order of worker.
  std::vector<float> ValuesAfterMean() const {
    std::vector<float> values(kSize);
    for (size_t i = 0; i < kSize; ++i) {
      float sum = 0;
      for (const std::vector<float>& gradient : gradients_) sum += gradient[i];
      values[i] = 0.0f - sum / kWorkers;
    }
    return values;
  }

  static std::vector<float> Floats(const Payload& payload) {
    std::vector<float> values(kSize);
    payload.CopyTo(absl::MakeSpan(values));
    return values;
  }

  const std::shared_ptr<const Codec> codec_;
  bool is_auto_ = false;
  bool keeps_open_step_ = false;
  const std::unique_ptr<Optimizer> optimizer_ = MakeSgd();
  WorkerCounter non_finite_pushes_;
  ReplyStateBudget reply_state_{/*bytes=*/1 << 20};
  std::vector<std::vector<uint8_t>> pushes_;   // of each worker
  std::vector<std::vector<float>> gradients_;  // the same, decoded
  std::vector<ExchangeReply> replies_;
};

TEST_P(SliceCodecTest, UnderBspTheMeanOfDecodedPushesHasTheSameBitsInEveryOrderOfArrival) {
  std::vector<int> order = {0, 1, 2};
  do {
    const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kBsp);
    replies_.clear();
    for (const int worker : order) Send(*slice, Request(worker));
    ASSERT_EQ(replies_.size(), size_t{kWorkers});
    for (const ExchangeReply& reply : replies_) {
      ASSERT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_EQ(reply.codec, CodecType::kFloat32);
      EXPECT_EQ(Floats(reply.values), ValuesAfterMean());
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(SliceCodecTest, AnAsyncPushIsAppliedDecoded) {
  const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kAsync);
  Send(*slice, Request(1));
  ASSERT_EQ(replies_.size(), 1u);
  ASSERT_TRUE(replies_[0].status.ok()) << replies_[0].status;
  std::vector<float> expected = gradients_[1];
  for (float& value : expected) value = 0.0f - value;
  EXPECT_EQ(Floats(replies_[0].values), expected);
}

TEST_P(SliceCodecTest, APushThatArrivesTwiceIsAppliedOnce) {
  const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kAsync);
  Send(*slice, Request(1));
  Send(*slice, Request(1));
  ASSERT_EQ(replies_.size(), 2u);
  EXPECT_EQ(Floats(replies_[1].values), Floats(replies_[0].values));
  EXPECT_EQ(slice->version(), 1u);
}

TEST_P(SliceCodecTest, ASnapshotWithKeptPushesGoesOnWithTheSameBits) {
  const std::unique_ptr<Slice> before = MakeSliceWithWorkers(ConsistencyMode::kBsp);
  Send(*before, Request(2));
  Send(*before, Request(0));
  SliceSnapshot snapshot = before->Snapshot();
  ASSERT_EQ(snapshot.kept.size(), 2u);

  const std::unique_ptr<Slice> after = MakeSlice(ConsistencyMode::kBsp);
  ASSERT_TRUE(after->Restore(snapshot).ok());
  Send(*after, Request(1));
  EXPECT_EQ(Floats(after->Snapshot().values), ValuesAfterMean());
}

TEST_P(SliceCodecTest, APushInAnotherCodecIsRefused) {
  ExchangeRequest request = Request(0);
  DenseStepOf(request).push->gradient->codec = CodecType::kFloat32;
  const absl::Status status = ErrorOf(std::move(request));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), codec_->name())) << status;
  request = Request(0);
  DenseStepOf(request).push->gradient->codec = static_cast<CodecType>(99);
  EXPECT_TRUE(absl::IsInvalidArgument(ErrorOf(std::move(request))));
}

TEST_P(SliceCodecTest, APushOfAWrongLengthIsRefused) {
  for (const size_t bytes : {size_t{0}, pushes_[0].size() - 1, pushes_[0].size() / 2}) {
    ExchangeRequest request = Request(0);
    Payload& payload = DenseStepOf(request).push->gradient->bytes;
    payload = payload.Subrange(0, bytes);
    const absl::Status status = ErrorOf(std::move(request));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "slice 0 of w")) << status;
  }
}

TEST_P(SliceCodecTest, BytesThatDecodeToNoNumbersAreRefused) {
  // A scale, a value or an index, by codec: all bits set are none of them.
  std::fill(pushes_[0].begin(), pushes_[0].begin() + 8, 0xff);
  std::fill(pushes_[0].end() - 8, pushes_[0].end(), 0xff);
  EXPECT_TRUE(absl::IsInvalidArgument(ErrorOf(Request(0))));
}

TEST_P(SliceCodecTest, AVersionIsEncodedOnceForAllWorkers) {
  for (const std::string pull : {"bfloat16", "int8"}) {
    const auto codec = MakeCodec(pull).value();
    const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kBsp, pull);
    replies_.clear();
    for (int worker = 0; worker < kWorkers; ++worker) Send(*slice, Request(worker));
    ASSERT_EQ(replies_.size(), size_t{kWorkers});
    for (const ExchangeReply& reply : replies_) {
      ASSERT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_EQ(reply.codec, codec->type());
      EXPECT_EQ(reply.values.piece().data(), replies_[0].values.piece().data());
    }
    EXPECT_EQ(Floats(slice->Snapshot().values), ValuesAfterMean())
        << "the server keeps full precision";
    const std::vector<float> got = Decode(*codec, replies_[0].values.piece());
    const std::vector<float> values = ValuesAfterMean();
    for (size_t i = 0; i < kSize; ++i) {
      // bfloat16 has 8 significant bits. int8 has steps of max / 127, and max is below 8 here.
      ASSERT_NEAR(got[i], values[i], pull == "int8" ? 8.0 / 127 : std::abs(values[i]) / 256) << i;
    }
  }
}

TEST_P(SliceCodecTest, APullForFloat32GetsExactValues) {
  const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kBsp, "int8");
  for (int worker = 0; worker < kWorkers; ++worker) {
    ExchangeRequest request = Request(worker);
    DenseStepOf(request).pull->is_float32 = worker == 1;  // It is parked until worker 2 has pushed.
    Send(*slice, std::move(request));
  }
  ASSERT_EQ(replies_.size(), size_t{kWorkers});
  int exact = 0;
  for (const ExchangeReply& reply : replies_) {
    if (reply.codec != CodecType::kFloat32) continue;
    ++exact;
    EXPECT_EQ(Floats(reply.values), ValuesAfterMean());
  }
  EXPECT_EQ(exact, 1);
}

TEST_P(SliceCodecTest, ValuesAlreadySentStayAsTheyAreWhileTheNextVersionIsEncoded) {
  const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kAsync, "int8");
  Send(*slice, Request(0));
  const Payload sent = replies_.at(0).values;
  const std::vector<uint8_t> before(sent.piece().begin(), sent.piece().end());
  Send(*slice, Request(1));
  EXPECT_EQ(before, std::vector<uint8_t>(sent.piece().begin(), sent.piece().end()));
  const Payload& next = replies_.at(1).values;
  EXPECT_NE(before, std::vector<uint8_t>(next.piece().begin(), next.piece().end()));
}

TEST_P(SliceCodecTest, AStepIsDoneAgainWithTheBytesThatItsWorkerHadGot) {
  keeps_open_step_ = true;
  const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kBsp, "int8");
  const auto ask = [&](Step pull, std::optional<Step> push) {
    replies_.clear();
    for (int worker = 0; worker < kWorkers; ++worker) {
      ExchangeRequest request = Request(worker);
      DenseStep& step = DenseStepOf(request);
      push.has_value() ? void(step.push->step = *push) : step.push.reset();
      step.pull->step = pull;
      Send(*slice, std::move(request));
    }
    const Payload& values = replies_.at(0).values;
    return std::vector<uint8_t>(values.piece().begin(), values.piece().end());
  };
  const std::vector<uint8_t> first = ask(/*pull=*/Step(1), /*push=*/Step(0));
  const std::vector<uint8_t> second = ask(/*pull=*/Step(2), /*push=*/Step(1));
  EXPECT_NE(first, second);
  ReleasedReplies none;
  for (int worker = 0; worker < kWorkers; ++worker) {
    slice->EnterWorker(WorkerId(worker), Step(1), &none);
  }
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(ask(Step(1), std::nullopt), first);
    EXPECT_EQ(replies_[0].codec, CodecType::kInt8);
    EXPECT_EQ(replies_[0].version, 1u);
    EXPECT_EQ(ask(Step(2), std::nullopt), second);
  }
  ExchangeRequest exact = Request(0);
  DenseStepOf(exact).push.reset();
  DenseStepOf(exact).pull->is_float32 = true;
  Send(*slice, std::move(exact));
  EXPECT_EQ(replies_.back().codec, CodecType::kFloat32);
  EXPECT_EQ(Floats(replies_.back().values), ValuesAfterMean());
}

TEST_P(SliceCodecTest, UnderBspOneDifferenceServesAllWorkers) {
  const auto codec = MakeCodec("topk:9").value();
  const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kBsp, "topk:9");
  uint64_t copies[kWorkers];
  for (int worker = 0; worker < kWorkers; ++worker) copies[worker] = FirstCopy(*slice, worker);
  copies[1] = 0;  // As if it had no values: it gets a whole copy.
  for (int worker = 0; worker < kWorkers; ++worker) Send(*slice, Request(worker, copies[worker]));
  ASSERT_EQ(replies_.size(), size_t{kWorkers});
  std::vector<float> whole;
  std::vector<const uint8_t*> differences;
  for (const ExchangeReply& reply : replies_) {
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.copy, replies_[0].copy);
    if (reply.codec == CodecType::kFloat32) whole = Floats(reply.values);
    if (reply.codec != codec->type()) continue;
    EXPECT_EQ(Decode(*codec, reply.values.piece()).size(), kSize);
    differences.push_back(reply.values.piece().data());
  }
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0], differences[1]) << "encoded once";
  EXPECT_EQ(whole, Decode(*codec, {differences[0], codec->EncodedBytes(kSize)}))
      << "from zeros, a difference is the copy";
  EXPECT_EQ(Floats(slice->Snapshot().values), ValuesAfterMean())
      << "the server keeps full precision";
}

TEST_P(SliceCodecTest, ANewProcessOfAWorkerBeginsWithTheWholeValues) {
  const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kAsync, "topk:9");
  const uint64_t copy = FirstCopy(*slice, 0);
  const uint64_t other = FirstCopy(*slice, 1);
  EXPECT_NE(copy, other) << "each worker has its own";
  ReleasedReplies none;
  slice->AddWorkers({WorkerId(0)}, &none);
  Send(*slice, Request(0, copy));
  Send(*slice, Request(1, other));
  ASSERT_EQ(replies_.size(), 2u);
  EXPECT_EQ(replies_[0].codec, CodecType::kFloat32);
  EXPECT_EQ(replies_[1].codec, CodecType::kTopkFloat32);
}

TEST_P(SliceCodecTest, ASnapshotHasTheCopyOfTheWorkers) {
  const std::unique_ptr<Slice> before = MakeSliceWithWorkers(ConsistencyMode::kBsp, "topk:9");
  EXPECT_FALSE(before->Snapshot().copy.has_value());
  uint64_t copies[kWorkers];
  for (int worker = 0; worker < kWorkers; ++worker) copies[worker] = FirstCopy(*before, worker);
  for (int worker = 0; worker < kWorkers; ++worker) Send(*before, Request(worker, copies[worker]));
  const SliceSnapshot snapshot = before->Snapshot();
  ASSERT_TRUE(snapshot.copy.has_value());
  EXPECT_EQ(snapshot.copy->version, 1u);

  const std::unique_ptr<Slice> after = MakeSlice(ConsistencyMode::kBsp, "topk:9");
  ASSERT_TRUE(after->Restore(snapshot).ok());
  const SliceSnapshot again = after->Snapshot();
  ASSERT_TRUE(again.copy.has_value());
  EXPECT_EQ(again.copy->version, 1u);
  EXPECT_EQ(Floats(again.copy->values), Floats(snapshot.copy->values));
}

// One worker has heard of the choice, the others have not.
TEST_P(SliceCodecTest, AnAutoSliceTakesFloat32PushesToo) {
  is_auto_ = true;
  const std::unique_ptr<Slice> slice = MakeSliceWithWorkers(ConsistencyMode::kBsp);
  for (int worker = 0; worker < kWorkers; ++worker) {
    ExchangeRequest request = Request(worker);
    if (worker != 1) {
      DenseStepOf(request).push->gradient = {
          Payload(absl::MakeConstSpan(gradients_[worker]), nullptr)};
    }
    Send(*slice, std::move(request));
  }
  ASSERT_EQ(replies_.size(), size_t{kWorkers});
  EXPECT_TRUE(replies_[0].status.ok()) << replies_[0].status;
  EXPECT_EQ(Floats(replies_[0].values), ValuesAfterMean());
}

INSTANTIATE_TEST_SUITE_P(Codecs, SliceCodecTest,
                         testing::Values("bfloat16", "int8", "topk:0.05", "topk:100:int8"),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace capstan
