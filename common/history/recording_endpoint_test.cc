#include "common/history/recording_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/codec/changed_values.h"
#include "common/codec/codec.h"
#include "common/exchange/request_parts.h"

namespace capstan {
namespace {

// Keeps what it is asked until the test answers.
class PatientEndpoint : public ParameterEndpoint {
 public:
  explicit PatientEndpoint(std::vector<ReplyCallback>* open) : open_(*open) {}
  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    delivered();
    open_.push_back(std::move(done));
  }

 private:
  std::vector<ReplyCallback>& open_;
};

class RecordingEndpointTest : public testing::Test {
 protected:
  RecordingEndpointTest() {
    recording_.clock = &clock_;
    recording_.log = &log_;
    recording_.has_values = true;
  }

  void Send(ParameterEndpoint& endpoint) {
    ExchangeRequest request;
    request.sender = {/*job=*/0, WorkerId(3), Incarnation(77)};
    request.slice = {TableId(2), SliceIndex(5)};
    request.purpose = MakeDenseStep(Step(8), Step(9));
    endpoint.Exchange(
        std::move(request), [] {}, [this](ExchangeReply reply) { reply_ = std::move(reply); });
  }

  FakeClock clock_;
  MemoryHistoryLog log_;
  RecordingEndpoint::Recording recording_;
  std::vector<ParameterEndpoint::ReplyCallback> open_;
  ExchangeReply reply_;
};

TEST_F(RecordingEndpointTest, WritesTheQuestionWhenAskedAndTheAnswerWhenGiven) {
  RecordingEndpoint endpoint(&recording_, std::make_unique<PatientEndpoint>(&open_));
  const int64_t called_ns = absl::ToUnixNanos(clock_.Now());
  Send(endpoint);
  clock_.Advance(absl::Milliseconds(5));
  const std::vector<float> values = {1, 2, 3};
  ExchangeReply answer;
  answer.version = 40;
  answer.min_step = Step(7);
  answer.values = Payload(values, nullptr);
  open_[0](answer);
  EXPECT_EQ(reply_.version, 40);

  const std::vector<v1::HistoryRecord> records = log_.TakeRecords();
  ASSERT_EQ(records.size(), 2);
  const v1::ExchangeBegan& began = records[0].began();
  EXPECT_EQ(began.worker(), 3);
  EXPECT_EQ(began.incarnation(), 77);
  EXPECT_EQ(began.table(), 2);
  EXPECT_EQ(began.slice(), 5);
  EXPECT_TRUE(began.has_push() && began.has_pull());
  EXPECT_EQ(began.push_step(), 8);
  EXPECT_EQ(began.pull_step(), 9);
  EXPECT_EQ(began.time_ns(), called_ns);
  const v1::ExchangeEnded& ended = records[1].ended();
  EXPECT_EQ(ended.id(), began.id());
  EXPECT_EQ(ended.incarnation(), 77);
  EXPECT_EQ(ended.code(), 0);
  EXPECT_EQ(ended.version(), 40);
  EXPECT_EQ(ended.min_step(), 7);
  EXPECT_EQ(std::vector<float>(ended.values().begin(), ended.values().end()), values);
  EXPECT_EQ(ended.time_ns(), called_ns + 5'000'000);
}

TEST_F(RecordingEndpointTest, ExchangesOfTwoServersHaveIdsOfTheirOwn) {
  RecordingEndpoint first(&recording_, std::make_unique<PatientEndpoint>(&open_));
  RecordingEndpoint second(&recording_, std::make_unique<PatientEndpoint>(&open_));
  Send(first);
  Send(second);
  const std::vector<v1::HistoryRecord> records = log_.TakeRecords();
  EXPECT_NE(records[0].began().id(), records[1].began().id());
}

TEST_F(RecordingEndpointTest, AWorkersOwnStateAndRecordsOfServersAreNoPartOfAHistory) {
  RecordingEndpoint endpoint(&recording_, std::make_unique<PatientEndpoint>(&open_));
  const decltype(ExchangeRequest::purpose) purposes[] = {WorkerState{1, Payload()},
                                                         ReplicaRecord()};
  int answered = 0;
  for (const auto& purpose : purposes) {
    ExchangeRequest request;
    request.purpose = purpose;
    endpoint.Exchange(
        std::move(request), [] {}, [&answered](const ExchangeReply&) { ++answered; });
  }
  for (auto& done : open_) done(ExchangeReply());
  EXPECT_EQ(answered, 2);
  EXPECT_TRUE(log_.TakeRecords().empty());
}

TEST_F(RecordingEndpointTest, OnlyWhatHasChangedIsWritten) {
  recording_.has_changes = true;
  RecordingEndpoint first(&recording_, std::make_unique<PatientEndpoint>(&open_));
  RecordingEndpoint second(&recording_, std::make_unique<PatientEndpoint>(&open_));
  const std::vector<std::vector<float>> values = {{0, 7, 0}, {0, 7, 9}, {0, 0, 9}};
  for (const std::vector<float>& seen : values) {
    Send(open_.size() < 2 ? first : second);
    ExchangeReply answer;
    answer.values = Payload(seen, nullptr);
    open_.back()(answer);
  }
  Send(first);
  ExchangeReply refusal;
  refusal.status = absl::UnavailableError("gone");
  open_.back()(refusal);
  const std::vector<v1::HistoryRecord> records = log_.TakeRecords();
  ASSERT_EQ(records.size(), 8);
  const std::vector<std::pair<uint32_t, float>> changes = {{1, 7}, {2, 9}, {1, 0}};
  for (size_t i = 0; i < changes.size(); ++i) {
    const v1::ExchangeEnded& ended = records[2 * i + 1].ended();
    EXPECT_TRUE(ended.has_changes() && ended.values().empty()) << i;
    ASSERT_EQ(ended.changed_elements_size(), 1) << i;
    EXPECT_EQ(ended.changed_elements(0), changes[i].first) << i;
    EXPECT_EQ(ended.changed_values(0), changes[i].second) << i;
  }
  EXPECT_FALSE(records[7].ended().has_changes()) << "it has no values";
}

// Bytes of a reply.
Payload PayloadOf(std::vector<uint8_t> bytes) {
  const auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  Payload payload(owner);
  payload.Append(*owner);
  return payload;
}

ExchangeReply Reply(CodecType codec, uint64_t copy, Payload values) {
  ExchangeReply reply;
  reply.codec = codec;
  reply.copy = copy;
  reply.values = std::move(values);
  return reply;
}

TEST_F(RecordingEndpointTest, TheWholeValuesOfADifferenceAreWrittenIfTheyLackNothing) {
  const std::shared_ptr<const Codec> codec = MakeCodec("topk:1").value();
  recording_.pull_codecs = {nullptr, nullptr, codec};
  RecordingEndpoint endpoint(&recording_, std::make_unique<PatientEndpoint>(&open_));
  for (int i = 0; i < 3; ++i) Send(endpoint);
  log_.TakeRecords();

  const std::vector<float> first = {1, 2, 3};
  open_[0](Reply(CodecType::kFloat32, /*copy=*/1, Payload(first, nullptr)));
  std::vector<uint8_t> difference(codec->EncodedBytes(3));
  const std::vector<float> one = {0, 10, 0};
  ASSERT_TRUE(codec->Encode(one, DrawKey(), {}, absl::MakeSpan(difference)).ok());
  open_[1](Reply(CodecType::kTopkFloat32, /*copy=*/2, PayloadOf(difference)));
  const std::vector<float> before = {1, 12, 3}, after = {1, 12, 4};
  std::vector<uint8_t> changed(ChangedBytes(1));
  EncodeChanged(before, after, absl::MakeSpan(changed));
  open_[2](Reply(CodecType::kChanged, /*copy=*/3, PayloadOf(changed)));

  const std::vector<v1::HistoryRecord> records = log_.TakeRecords();
  ASSERT_EQ(records.size(), 3u);
  for (const size_t i : {0, 1}) {
    EXPECT_TRUE(records[i].ended().has_inexact_values());
    EXPECT_EQ(records[i].ended().values_size(), 0);
  }
  EXPECT_FALSE(records[2].ended().has_inexact_values());
  const auto& values = records[2].ended().values();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), after);
}

TEST_F(RecordingEndpointTest, WithoutChangesACopyLacksWhatItHasLackedBefore) {
  const std::shared_ptr<const Codec> codec = MakeCodec("topk:1").value();
  recording_.pull_codecs = {nullptr, nullptr, codec};
  RecordingEndpoint endpoint(&recording_, std::make_unique<PatientEndpoint>(&open_));
  for (int i = 0; i < 4; ++i) Send(endpoint);
  log_.TakeRecords();

  const std::vector<float> first = {1, 2, 3}, after = {1, 2, 4};
  open_[0](Reply(CodecType::kFloat32, /*copy=*/1, Payload(first, nullptr)));
  open_[1](Reply(CodecType::kChanged, /*copy=*/1, Payload()));
  std::vector<uint8_t> changed(ChangedBytes(1));
  EncodeChanged(first, after, absl::MakeSpan(changed));
  open_[2](Reply(CodecType::kChanged, /*copy=*/2, PayloadOf(changed)));
  open_[3](Reply(CodecType::kChanged, /*copy=*/2, Payload()));

  const std::vector<v1::HistoryRecord> records = log_.TakeRecords();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_TRUE(records[0].ended().has_inexact_values());
  EXPECT_TRUE(records[1].ended().has_inexact_values());
  for (const size_t i : {2, 3}) {
    EXPECT_FALSE(records[i].ended().has_inexact_values());
    const auto& values = records[i].ended().values();
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), after);
  }
}

TEST_F(RecordingEndpointTest, WhatAPushCarriesIsWritten) {
  RecordingEndpoint endpoint(&recording_, std::make_unique<PatientEndpoint>(&open_));
  ExchangeRequest request;
  request.purpose = DenseStep{StepPush{Step(3), std::nullopt, std::nullopt, {0.0, 0.5}}};
  endpoint.Exchange(
      std::move(request), [] {}, [](const ExchangeReply&) {});
  ExchangeRequest initial;
  initial.purpose = InitialValues();
  endpoint.Exchange(
      std::move(initial), [] {}, [](const ExchangeReply&) {});
  const std::vector<v1::HistoryRecord> records = log_.TakeRecords();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_TRUE(records[0].began().has_learning_rate());
  EXPECT_EQ(records[0].began().learning_rate(), 0);
  EXPECT_EQ(records[0].began().momentum(), 0.5);
  EXPECT_TRUE(records[0].began().is_empty_push());
  EXPECT_FALSE(records[0].began().is_initial());
  EXPECT_FALSE(records[1].began().has_learning_rate());
  EXPECT_FALSE(records[1].began().has_momentum());
  EXPECT_TRUE(records[1].began().is_initial());
}

TEST_F(RecordingEndpointTest, AnErrorIsWrittenAndValuesOnlyWhenAskedFor) {
  recording_.has_values = false;
  RecordingEndpoint endpoint(&recording_, std::make_unique<PatientEndpoint>(&open_));
  Send(endpoint);
  Send(endpoint);
  open_[0](ErrorReply(absl::FailedPreconditionError("stale")));
  const std::vector<float> values = {1};
  ExchangeReply answer;
  answer.values = Payload(values, nullptr);
  open_[1](answer);
  const std::vector<v1::HistoryRecord> records = log_.TakeRecords();
  EXPECT_EQ(records[2].ended().code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(records[3].ended().values_size(), 0);
}

}  // namespace
}  // namespace capstan
