// A program that runs the optimizer of a table: it gets the mean, and keeps the parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "common/exchange/payload_floats.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "worker/program/program_engine.h"
#include "worker/runtime/training_loop.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr absl::Duration kForever = absl::InfiniteDuration();
constexpr absl::Duration kAtOnce = absl::ZeroDuration();
constexpr size_t kElements = 3;  // of each table, which has one slice
constexpr TableId kOther(0);     // in layer 0; the servers run its optimizer
constexpr TableId kMean(1);      // in layer 1; the program runs it

// Servers whose one worker is this one. Replies with the latest gradient. Thread-safe.
class MeanServer : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    ExchangeReply reply;
    {
      MutexLock lock(&mu_);
      reply = AnswerLocked(request);
      if (holds_ && request.slice.table == kMean) {
        held_.emplace_back(std::move(done), std::move(reply));
        return;
      }
    }
    done(std::move(reply));
  }

  // From now on answers in table kMean wait for Answer.
  void Hold() {
    MutexLock lock(&mu_);
    holds_ = true;
  }
  void Answer() {
    std::vector<std::pair<ReplyCallback, ExchangeReply>> held;
    {
      MutexLock lock(&mu_);
      holds_ = false;
      held.swap(held_);
    }
    for (auto& [done, reply] : held) done(std::move(reply));
  }
  // Replies in table kMean tell of this number of cuts.
  void SetCut(uint64_t cut) {
    MutexLock lock(&mu_);
    cut_ = cut;
  }
  // The cuts for which the table's state has come, with its floats.
  std::vector<std::pair<uint64_t, std::vector<float>>> kept() {
    MutexLock lock(&mu_);
    return kept_;
  }

 private:
  ExchangeReply AnswerLocked(const ExchangeRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ExchangeReply reply;
    if (const auto* state = std::get_if<TableState>(&request.purpose)) {
      kept_.emplace_back(state->cut, Floats(state->arrays));
    } else if (std::holds_alternative<OptimizerStatePull>(request.purpose)) {
      return ErrorReply(absl::InvalidArgumentError("expected one of 0 arrays"));
    } else if (const Gradient* const gradient = GradientOf(request); gradient != nullptr) {
      means_[request.slice.table] = Floats(gradient->bytes);
      ++versions_[request.slice.table];
    }
    if (PullOf(request) == nullptr) return reply;
    auto values = std::make_shared<std::vector<float>>(means_[request.slice.table]);
    values->resize(kElements);
    reply.values = Payload(absl::MakeConstSpan(*values), values);
    reply.version = versions_[request.slice.table];
    if (request.slice.table == kMean) reply.cut = cut_;
    return reply;
  }

  Mutex mu_;
  bool holds_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::pair<ReplyCallback, ExchangeReply>> held_ ABSL_GUARDED_BY(mu_);
  uint64_t cut_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<TableId, std::vector<float>> means_ ABSL_GUARDED_BY(mu_);
  std::map<TableId, uint64_t> versions_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<uint64_t, std::vector<float>>> kept_ ABSL_GUARDED_BY(mu_);
};

// A training loop on a thread of its own, as in worker 0; the test is the program.
class ProgramTableStateTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<v1::TableSpec> tables(2);
    for (uint32_t id = 0; id < 2; ++id) {
      tables[id].set_name(id == 0 ? "other" : "w");
      tables[id].add_shape(kElements);
      tables[id].set_layer(id);
      tables[id].set_replies_mean(id == 1);
    }
    ProgramEngine::Options options;
    options.clock = &clock_;
    options.tables = tables;
    options.initial.resize(2);
    options.job.mutable_cluster()->set_num_workers(1);
    options.job.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
    options.job.mutable_checkpoint()->set_dir("checkpoints");
    engine_ = std::make_unique<ProgramEngine>(options);
    ParameterStore::Options store;
    store.clock = &clock_;
    store.client = &server_;
    store.scheduler = &scheduler_;
    store.tables = tables;
    store.slice_bytes = 1 << 10;
    store_ = ParameterStore::Create(store).value();
    store_->PullAll(Step(0));
    TrainingLoop::Options loop;
    loop.clock = &clock_;
    loop.engine = engine_.get();
    loop.store = store_.get();
    loop.must_stop = [] { return false; };
    loop_ = std::make_unique<TrainingLoop>(loop);
    thread_ = std::thread([this] { loop_->Run().IgnoreError(); });
    ASSERT_TRUE(engine_->steps().AwaitStart(kForever).ok());
  }
  void TearDown() override {
    server_.Answer();
    engine_->steps().Fail(absl::InternalError("the test is over"));
    thread_.join();
    store_->CancelPushes();
  }

  absl::Status EndStep() { return engine_->EndStep(/*loss=*/0, /*samples=*/1, kForever); }
  // A step with a gradient, after which replies tell of this number of cuts.
  void DoStep(uint64_t cut) {
    server_.SetCut(cut);
    ASSERT_TRUE(engine_->Push(/*layer=*/1, kForever).ok());
    ASSERT_TRUE(EndStep().ok());
    ASSERT_TRUE(engine_->Wait(/*layer=*/-1, kForever).ok());
  }
  static std::vector<std::vector<float>> Arrays(size_t count, size_t elements = kElements) {
    return std::vector<std::vector<float>>(count, std::vector<float>(elements, 5));
  }
  absl::Status Keep(const std::vector<std::vector<float>>& arrays, bool is_last = false,
                    TableId table = kMean, absl::Duration limit = kForever) {
    const std::vector<absl::Span<const float>> spans(arrays.begin(), arrays.end());
    return engine_->optimizer_state().Keep(table, spans, is_last, limit);
  }
  void ExpectRefused(const absl::Status& status, const std::string& text) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  RealClock clock_;
  MeanServer server_;
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<PriorityQueue>()};
  std::unique_ptr<ProgramEngine> engine_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<TrainingLoop> loop_;
  std::thread thread_;
};

TEST_F(ProgramTableStateTest, TheMeanIsThereBeforeTheStepEndsAndUpdatesTellOfIt) {
  EXPECT_EQ(engine_->UpdatesOf(kMean), 0);
  for (float& gradient : engine_->gradients()[1]) gradient = 2;
  ASSERT_TRUE(engine_->Push(/*layer=*/1, kForever).ok());
  ASSERT_TRUE(engine_->Wait(/*layer=*/1, kForever).ok());
  EXPECT_EQ(engine_->UpdatesOf(kMean), 1);
  EXPECT_EQ(engine_->values()[1][0], 2);
  ASSERT_TRUE(EndStep().ok());
}

TEST_F(ProgramTableStateTest, APushOfNothingLeavesTheUpdatesAndCountsAsThePush) {
  DoStep(/*cut=*/0);
  ASSERT_TRUE(engine_->PushNothing(/*layer=*/1, kForever).ok());
  ASSERT_TRUE(engine_->Wait(/*layer=*/1, kForever).ok());
  EXPECT_EQ(engine_->UpdatesOf(kMean), 1);
  for (const absl::Status& again :
       {engine_->PushNothing(/*layer=*/1, kForever), engine_->Push(/*layer=*/1, kForever)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
    EXPECT_THAT(std::string(again.message()), HasSubstr("layer 1 has been pushed in step 1"));
  }
  ExpectRefused(engine_->PushNothing(/*layer=*/2, kForever), "layer: expected 0 to 1, got 2");
  ASSERT_TRUE(EndStep().ok());
  DoStep(/*cut=*/0);
  EXPECT_EQ(engine_->UpdatesOf(kMean), 2);
}

TEST_F(ProgramTableStateTest, ATableThatIsNotThereHasNoUpdates) {
  EXPECT_EQ(engine_->UpdatesOf(TableId(2)), -1);
  ProgramEngine::Options options;
  options.clock = &clock_;
  options.tables.resize(1);
  options.tables[0].mutable_sparse()->set_dim(4);
  ProgramEngine sparse(options);
  EXPECT_EQ(sparse.UpdatesOf(TableId(0)), -1);
  options.tables[0].clear_sparse();
  ProgramEngine not_started(options);
  EXPECT_EQ(not_started.UpdatesOf(TableId(0)), -1);
  EXPECT_TRUE(absl::IsFailedPrecondition(not_started.PushNothing(0, kForever)));
}

TEST_F(ProgramTableStateTest, WhatIsKeptGoesToAServerThatWaitsForIt) {
  EXPECT_TRUE(Keep(Arrays(1)).ok());
  EXPECT_THAT(server_.kept(), IsEmpty()) << "nobody waits for it";
  DoStep(/*cut=*/1);
  std::vector<std::vector<float>> arrays = Arrays(2);
  arrays[1] = {7, 8, 9};
  EXPECT_TRUE(Keep(arrays).ok());
  EXPECT_THAT(server_.kept(), ElementsAre(Pair(1u, ElementsAre(5, 5, 5, 7, 8, 9))));
  EXPECT_TRUE(Keep(arrays).ok());
  EXPECT_EQ(server_.kept().size(), 1u) << "the server has it";
  EXPECT_TRUE(Keep(Arrays(1), /*is_last=*/true).ok());
  EXPECT_THAT(server_.kept().back(), Pair(kFinalCut, ElementsAre(5, 5, 5)));
}

TEST_F(ProgramTableStateTest, WhatDoesNotFitIsNotKept) {
  DoStep(/*cut=*/1);
  const std::string expected =
      "table w: expected its parameters and at most 16 arrays of the optimizer's state, each of 3 "
      "numbers, got ";
  ExpectRefused(Keep({}), expected + "0");
  ExpectRefused(Keep(Arrays(18)), expected + "18");
  for (const size_t elements : {0, 2, 4}) ExpectRefused(Keep(Arrays(1, elements)), expected + "1");
  std::vector<std::vector<float>> one_is_short = Arrays(3);
  one_is_short[2].pop_back();
  ExpectRefused(Keep(one_is_short), expected + "3");
  for (const TableId table : {kOther, TableId(2)}) {
    ExpectRefused(Keep(Arrays(1), /*is_last=*/false, table),
                  "table: expected one whose optimizer the program runs");
  }
  EXPECT_THAT(server_.kept(), IsEmpty());
  EXPECT_TRUE(Keep(Arrays(17)).ok());
  EXPECT_EQ(server_.kept().size(), 1u);
}

TEST_F(ProgramTableStateTest, NoPushComesBeforeAStateThatACheckpointWaitsFor) {
  DoStep(/*cut=*/1);
  for (const absl::Status& refused : {engine_->Push(/*layer=*/1, kForever),
                                      engine_->PushNothing(/*layer=*/1, kForever), EndStep()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_EQ(refused.message(),
              "a checkpoint waits for the parameters of table w: call capstan_keep_table before "
              "the step's pushes, if capstan_worker_state_due says so");
  }
  EXPECT_TRUE(engine_->Push(/*layer=*/0, kForever).ok()) << "the servers have that table";
  EXPECT_TRUE(Keep(Arrays(1)).ok());
  EXPECT_TRUE(engine_->Push(/*layer=*/1, kForever).ok());
  EXPECT_TRUE(EndStep().ok());
}

TEST_F(ProgramTableStateTest, AStateThatIsDueIsToldWithoutAnyPieces) {
  EXPECT_FALSE(engine_->worker_state().AwaitDue(kForever).value());
  DoStep(/*cut=*/1);
  EXPECT_TRUE(engine_->worker_state().AwaitDue(kForever).value());
  EXPECT_TRUE(Keep(Arrays(1)).ok());
  EXPECT_FALSE(engine_->worker_state().AwaitDue(kForever).value());
}

// The first dense table is another one.
TEST_F(ProgramTableStateTest, WhetherAStateIsDueIsKnownWithTheTablesValues) {
  server_.SetCut(1);
  server_.Hold();
  ASSERT_TRUE(engine_->Push(/*layer=*/1, kForever).ok());
  ASSERT_TRUE(EndStep().ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->worker_state().AwaitDue(kAtOnce).status()));
  server_.Answer();
  EXPECT_TRUE(engine_->worker_state().AwaitDue(kForever).value());
}

TEST_F(ProgramTableStateTest, AKeepThatRanOutOfTimeGoesOn) {
  DoStep(/*cut=*/1);
  server_.Hold();
  for (int i = 0; i < 2; ++i) {
    const absl::Status late = Keep(Arrays(1), /*is_last=*/false, kMean, kAtOnce);
    EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  }
  server_.Answer();
  EXPECT_TRUE(Keep(Arrays(1)).ok());
  EXPECT_EQ(server_.kept().size(), 1u);
}

TEST_F(ProgramTableStateTest, ALastKeepThatRanOutOfTimeIsNotSentAgain) {
  DoStep(/*cut=*/0);
  server_.Hold();
  for (int i = 0; i < 2; ++i) {
    const absl::Status late = Keep(Arrays(1), /*is_last=*/true, kMean, kAtOnce);
    EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  }
  server_.Answer();
  EXPECT_TRUE(Keep(Arrays(1), /*is_last=*/true).ok());
  EXPECT_EQ(server_.kept().size(), 1u);
}

TEST_F(ProgramTableStateTest, AnArrayThatTheServersDoNotHaveIsRefusedAndTheWorkerGoesOn) {
  std::vector<float> values(kElements);
  uint64_t steps = 0;
  const auto read = [&](uint32_t array, size_t count) {
    return engine_->optimizer_state().Read(kMean, array, absl::MakeSpan(values).first(count),
                                           &steps, kForever);
  };
  ExpectRefused(read(/*array=*/0, kElements),
                "table w: the servers have no array 0 of the program's optimizer");
  ExpectRefused(read(/*array=*/16, kElements), "its optimizer has 16 arrays of 3 numbers");
  ExpectRefused(read(/*array=*/0, 2), "got array 0 of 2");
  DoStep(/*cut=*/0);
}

TEST_F(ProgramTableStateTest, TheProgramLoadsNoStateIntoTheServers) {
  const auto array = std::make_shared<const std::vector<float>>(kElements, 1.0f);
  ExpectRefused(engine_->optimizer_state().Load({kMean, 0, 0, array}, kForever),
                "table w: expected one whose optimizer the servers run");
  v1::TableSpec table;
  table.set_name("w");
  table.add_shape(kElements);
  table.set_replies_mean(true);
  ExpectRefused(ProgramOptimizerState::Check(table, v1::JobSpec(), 0, kElements),
                "table w: expected one whose optimizer the servers run");
  DoStep(/*cut=*/0);
}

}  // namespace
}  // namespace capstan
