#include "common/history/history_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/exchange/request_parts.h"

namespace capstan {
namespace {

const std::vector<float> kValues = {1, 2};

// A server that has applied one push of one worker.
class OnePushServer : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    delivered();
    ExchangeReply reply;
    reply.version = 1;
    reply.min_step = Step(1);
    reply.values = Payload(kValues, nullptr);
    done(std::move(reply));
  }
};

std::string FreshFolder(const std::string& name) {
  const std::string folder = testing::TempDir() + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

void Exchange(ParameterEndpoint& endpoint, std::optional<Step> push, Step pull) {
  ExchangeRequest request;
  request.sender.incarnation = Incarnation(0xabc);
  request.purpose = MakeDenseStep(push, pull, Payload(kValues, nullptr));
  endpoint.Exchange(
      std::move(request), [] {}, [](ExchangeReply) {});
}

// The first answer of a job with this model and codec, and whether its history claims values.
std::pair<v1::ExchangeEnded, bool> FirstAnswer(v1::ModelSpec::Type model,
                                               const std::string& codec) {
  const std::string folder = FreshFolder("first_answer");
  FakeClock clock;
  const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
  v1::JobSpec job;
  job.mutable_cluster()->set_num_workers(1);
  job.mutable_training()->set_steps(2);
  job.mutable_model()->set_type(model);
  job.mutable_codec()->set_push(codec);
  const auto endpoint = recorder->Record(job, std::make_unique<OnePushServer>());
  Exchange(*endpoint, Step(0), Step(1));
  EXPECT_TRUE(recorder->Finish().ok());
  const auto records = ReadHistoryFile(folder + "/worker-abc.history").value();
  return {records.back().ended(), records.front().header().has_test_values()};
}

// In seconds; by default a lease has 10 s, and a deadline 30 s.
int64_t SettlingTime(absl::Duration coordinator_patience) {
  const std::string folder = FreshFolder("settling_time");
  FakeClock clock;
  const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
  recorder->Record(v1::JobSpec(), std::make_unique<OnePushServer>(), coordinator_patience);
  EXPECT_TRUE(recorder->Finish().ok());
  const auto records = ReadHistoryFile(folder + "/worker-abc.history").value();
  return records.front().header().settle_ns() / 1'000'000'000;
}

TEST(HistoryRecorderTest, NewsMayComeLaterIfTheCoordinatorMayBeAway) {
  EXPECT_EQ(SettlingTime(absl::ZeroDuration()), 40);
  EXPECT_EQ(SettlingTime(absl::Seconds(600)), 640);
}

TEST(HistoryRecorderTest, ValuesAreRecordedOnlyIfTheyShowTheirUpdates) {
  for (const std::string codec : {"float32", "topk:0.1"}) {
    const auto [answer, has_values] = FirstAnswer(v1::ModelSpec::UPDATES, codec);
    EXPECT_TRUE(has_values) << codec;
    EXPECT_TRUE(answer.has_changes()) << codec;
    EXPECT_EQ(answer.changed_values_size(), 2) << codec;
  }
  for (const auto& [model, codec] : std::vector<std::pair<v1::ModelSpec::Type, std::string>>{
           {v1::ModelSpec::MLP, "float32"}, {v1::ModelSpec::UPDATES, "int8"}}) {
    const auto [answer, has_values] = FirstAnswer(model, codec);
    EXPECT_FALSE(has_values) << codec;
    EXPECT_FALSE(answer.has_changes()) << codec;
    EXPECT_TRUE(answer.values().empty()) << codec;
  }
}

TEST(HistoryRecorderTest, WhatAWorkerAskedAndGotIsRecorded) {
  const std::string folder = FreshFolder("recorded");
  FakeClock clock;
  const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
  v1::JobSpec job;
  job.mutable_cluster()->set_num_workers(1);
  auto first = recorder->Record(job, std::make_unique<OnePushServer>());
  const auto second = recorder->Record(job, std::make_unique<OnePushServer>());
  Exchange(*first, Step(0), Step(1));
  Exchange(*second, std::nullopt, Step(1));
  v1::JobView view;
  view.set_phase(v1::DONE);
  recorder->NoteView(view);
  ASSERT_TRUE(recorder->Finish().ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/worker-abc.history"));
  const History history = ReadHistory(folder).value();
  EXPECT_EQ(history.exchanges.size(), 2u);
  EXPECT_TRUE(history.membership.empty()) << "nobody has died";
  EXPECT_EQ(history.header.num_workers(), 1u);
  ASSERT_EQ(history.contracts.size(), 1u);
  EXPECT_EQ(history.contracts[0].mode(), v1::ContractRecord::BSP);
  for (const RecordedExchange& exchange : history.exchanges) {
    EXPECT_TRUE(exchange.is_ok());
    EXPECT_EQ(exchange.incarnation, Incarnation(0xabc));
    EXPECT_EQ(exchange.pull_step, Step(1));
    EXPECT_EQ(exchange.version, 1u);
    EXPECT_EQ(exchange.min_step, Step(1));
  }
  EXPECT_EQ(history.exchanges[0].push_step, Step(0));
  EXPECT_EQ(history.exchanges[1].push_step, std::nullopt);
}

TEST(HistoryRecorderTest, TheAnswersOfAWorkerThatDiedAreRecorded) {
  const std::string folder = FreshFolder("died");
  FakeClock clock;
  {
    const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
    const auto connection = recorder->Record(v1::JobSpec(), std::make_unique<OnePushServer>());
    Exchange(*connection, std::nullopt, Step(2));
  }
  const History history = ReadHistory(folder).value();
  EXPECT_EQ(history.membership.at(0).event(), v1::MembershipRecord::DIED);
  ASSERT_EQ(history.exchanges.size(), 1u);
  EXPECT_EQ(history.exchanges[0].pull_step, Step(2));
  EXPECT_EQ(history.exchanges[0].min_step, Step(1));
}

TEST(HistoryRecorderTest, AWorkerThatComesLateIsRecordedWithItsFirstStep) {
  const std::string folder = FreshFolder("late");
  FakeClock clock;
  const int64_t start_ns = absl::ToUnixNanos(clock.Now());
  const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
  v1::JobView view;
  view.add_workers()->set_incarnation(0xdef);
  v1::WorkerInfo& late = *view.add_workers();
  late.set_worker(1);
  late.set_incarnation(0xabc);
  late.set_is_entering(true);
  recorder->NoteView(view);
  clock.Advance(absl::Nanoseconds(7));
  recorder->NoteView(view);
  late.set_is_entering(false);
  late.set_first_step(40);
  recorder->NoteView(view);
  const auto connection = recorder->Record(v1::JobSpec(), std::make_unique<OnePushServer>());
  view.set_phase(v1::DONE);
  recorder->NoteView(view);
  ASSERT_TRUE(recorder->Finish().ok());
  const std::vector<v1::MembershipRecord> membership = ReadHistory(folder).value().membership;
  ASSERT_EQ(membership.size(), 2u);
  EXPECT_EQ(membership[0].event(), v1::MembershipRecord::JOINING);
  EXPECT_EQ(membership[0].time_ns(), start_ns);
  EXPECT_EQ(membership[1].event(), v1::MembershipRecord::ENTERED);
  EXPECT_EQ(membership[1].time_ns(), start_ns + 7);
  EXPECT_EQ(membership[1].worker(), 1u);
  EXPECT_EQ(membership[1].incarnation(), 0xabc);
  EXPECT_EQ(membership[1].first_step(), 40);
}

TEST(HistoryRecorderTest, AWorkerThatEndsBeforeItsJobIsRecordedAsDead) {
  const std::string folder = FreshFolder("ended_before");
  FakeClock clock;
  const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
  const auto connection = recorder->Record(v1::JobSpec(), std::make_unique<OnePushServer>());
  Exchange(*connection, std::nullopt, Step(1));
  ASSERT_TRUE(recorder->Finish().ok());
  const History history = ReadHistory(folder).value();
  EXPECT_EQ(history.exchanges.size(), 1u);
  EXPECT_EQ(history.membership.at(0).event(), v1::MembershipRecord::DIED);
}

TEST(HistoryRecorderTest, AWorkerThatNeverConnectedLeavesNothingToRead) {
  const std::string folder = FreshFolder("no_place");
  FakeClock clock;
  const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
  v1::JobView view;
  view.set_phase(v1::FAILED);
  recorder->NoteView(view);
  ASSERT_TRUE(recorder->Finish().ok());
  EXPECT_TRUE(ReadHistoryFile(folder + "/worker-abc.history").value().empty());
}

TEST(HistoryRecorderTest, AFolderThatCannotBeWrittenIsNamed) {
  FakeClock clock;
  const auto recorder = HistoryRecorder::Create("/no/such/folder", Incarnation(1), &clock);
  EXPECT_TRUE(absl::IsUnavailable(recorder.status()));
  EXPECT_NE(recorder.status().message().find("/no/such/folder"), std::string::npos);
}

TEST(HistoryRecorderTest, TheProcessesOfAWorkerHaveOneHistory) {
  const std::string folder = FreshFolder("processes");
  FakeClock clock;
  v1::JobView view;
  view.add_consistency();
  view.add_workers()->set_incarnation(0xabc);
  for (const uint32_t part : {0, 1}) {
    const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock, part).value();
    recorder->NoteView(view);
    const auto endpoint = recorder->Record(v1::JobSpec(), std::make_unique<OnePushServer>());
    Exchange(*endpoint, Step(part), Step(part + 1));
    ASSERT_TRUE(recorder->Finish().ok());
  }
  const History history = ReadHistory(folder).value();
  EXPECT_EQ(history.exchanges.size(), 2u);
  int entries = 0;
  for (const v1::MembershipRecord& record : history.membership) {
    entries += record.event() == v1::MembershipRecord::ENTERED ? 1 : 0;
  }
  EXPECT_EQ(entries, 1);
}

TEST(HistoryRecorderTest, WhatAViewPromisesIsRecordedAlsoWhenItCameFirst) {
  const std::string folder = FreshFolder("views");
  FakeClock clock;
  const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
  v1::JobView view;
  view.add_tables()->set_name("w");
  view.add_consistency();
  for (const int64_t first_step : {7, 9}) {
    v1::ConsistencyPeriod& period = *view.add_consistency();
    period.set_first_step(first_step);
    period.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  }
  view.mutable_consistency(2)->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  v1::JobView earlier = view;
  earlier.mutable_consistency()->RemoveLast();
  recorder->NoteView(earlier);
  const auto connection = recorder->Record(v1::JobSpec(), std::make_unique<OnePushServer>());
  recorder->NoteView(view);
  ASSERT_TRUE(recorder->Finish().ok());
  std::vector<std::pair<int64_t, v1::ContractRecord::Mode>> modes;
  const History history = ReadHistory(folder).value();
  for (const v1::ContractRecord& contract : history.contracts) {
    modes.emplace_back(contract.from_step(), contract.mode());
  }
  EXPECT_THAT(modes, testing::ElementsAre(testing::Pair(0, v1::ContractRecord::BSP),
                                          testing::Pair(7, v1::ContractRecord::ASYNC),
                                          testing::Pair(9, v1::ContractRecord::BSP)));
}

TEST(HistoryRecorderTest, AJobThatGoesOnFromACheckpointIsRecordedWithItsStepAndItsFirstPromise) {
  const std::string folder = FreshFolder("restored");
  FakeClock clock;
  const auto recorder = HistoryRecorder::Create(folder, Incarnation(0xabc), &clock).value();
  v1::JobView view;
  view.set_restored_step(40);
  view.add_tables()->set_name("w");
  view.add_consistency()->mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  view.add_consistency()->set_first_step(40);
  recorder->NoteView(view);
  v1::JobSpec job;
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  const auto connection = recorder->Record(job, std::make_unique<OnePushServer>());
  ASSERT_TRUE(recorder->Finish().ok());
  const History history = ReadHistory(folder).value();
  EXPECT_EQ(history.header.restored_step(), 40);
  ASSERT_EQ(history.contracts.size(), 2u);
  EXPECT_EQ(history.contracts[0].mode(), v1::ContractRecord::ASYNC) << "not the job's own";
  EXPECT_EQ(history.contracts[0].from_step(), 0);
  EXPECT_EQ(history.contracts[1].mode(), v1::ContractRecord::BSP);
  EXPECT_EQ(history.contracts[1].from_step(), 40);
}

}  // namespace
}  // namespace capstan
