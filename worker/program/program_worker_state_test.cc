#include "worker/program/program_worker_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "proto/checkpoint.pb.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr absl::Duration kAtOnce = absl::ZeroDuration();

// A slice of one value. Its replies tell `cut`.
class CutSlice : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    ExchangeReply reply;
    if (const auto* state = std::get_if<WorkerState>(&request.purpose)) {
      EXPECT_TRUE(state->is_program);
      std::string bytes(state->arrays.size_bytes(), ' ');
      state->arrays.CopyTo({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
      v1::ProgramState pieces;
      EXPECT_TRUE(pieces.ParseFromString(bytes));
      std::string text;
      for (const auto& piece : pieces.pieces()) text += piece.name() + "=" + piece.bytes() + " ";
      sent.emplace_back(state->cut, text);
    } else if (std::holds_alternative<WorkerStatePull>(request.purpose)) {
      v1::ProgramState pieces;
      pieces.add_pieces()->set_name("a");
      pieces.mutable_pieces(0)->set_bytes("restored");
      const auto bytes = std::make_shared<std::string>(pieces.SerializeAsString());
      reply.values = Payload(bytes);
      reply.values.Append({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
    } else {
      static const std::vector<float> value = {1};
      reply.values = Payload(absl::MakeConstSpan(value), nullptr);
      reply.cut = cut;
    }
    if (holds && std::holds_alternative<WorkerState>(request.purpose)) {
      held.emplace_back(std::move(done), std::move(reply));
    } else {
      done(std::move(reply));
    }
  }
  void AnswerOne() {
    auto [done, reply] = std::move(held.front());
    held.pop_front();
    done(std::move(reply));
  }

  bool holds = false;  // the answers to states
  std::deque<std::pair<ReplyCallback, ExchangeReply>> held;
  uint64_t cut = 0;
  std::vector<std::pair<uint64_t, std::string>> sent;
};

class ProgramWorkerStateTest : public testing::Test {
 protected:
  ProgramWorkerStateTest() {
    v1::TableSpec table;
    table.set_name("w");
    table.add_shape(1);
    tables_.push_back(table);
    ParameterStore::Options options;
    options.clock = &clock_;
    options.client = &server_;
    options.scheduler = &scheduler_;
    options.tables = tables_;
    options.slice_bytes = 1 << 10;
    options.has_program_state = true;
    store_ = ParameterStore::Create(options).value();
    steps_ = std::make_unique<ProgramSteps>(&clock_, /*parts=*/1, /*steps=*/0);
    state_ = std::make_unique<ProgramWorkerState>(&clock_, steps_.get(), &tables_,
                                                  /*has_checkpoints=*/true);
    steps_->BeginTraining(Step(0), *store_);
  }
  ~ProgramWorkerStateTest() override { store_->CancelPushes(); }

  absl::Status Put(const std::string& name, const std::string& bytes) {
    return state_->Put(name, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }
  // The step's only gradient is pushed. Its reply tells of `cut` cuts.
  void Push(int64_t step, uint64_t cut) {
    state_->NotePush(/*part=*/0, *store_);
    server_.cut = cut;
    store_->PushPull(/*layer=*/0, Step(step));
  }

  FakeClock clock_;
  CutSlice server_;
  Scheduler scheduler_{/*credit_bytes=*/1 << 20, std::make_unique<PriorityQueue>()};
  std::vector<v1::TableSpec> tables_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<ProgramSteps> steps_;
  std::unique_ptr<ProgramWorkerState> state_;
};

TEST_F(ProgramWorkerStateTest, WithoutPiecesNothingIsSent) {
  EXPECT_FALSE(state_->AwaitDue(kAtOnce).value());
  Push(0, /*cut=*/1);
  state_->NoteStepEnd(*store_);
  state_->NoteEnd(*store_);
  EXPECT_THAT(server_.sent, IsEmpty());
}

TEST_F(ProgramWorkerStateTest, ACutBeforeAStepGetsThePiecesOfItsFirstPush) {
  ASSERT_TRUE(Put("b", "0").ok());
  ASSERT_TRUE(Put("a", "0").ok());
  EXPECT_THAT(server_.sent, ElementsAre(Pair(0u, "")));
  Push(0, /*cut=*/1);  // before step 1
  ASSERT_TRUE(Put("a", "put in step 0").ok());
  state_->NoteStepEnd(*store_);
  EXPECT_EQ(server_.sent.size(), 1u) << "step 0 was not cut";
  ASSERT_TRUE(Put("a", "1").ok());
  Push(1, /*cut=*/2);
  ASSERT_TRUE(Put("a", "too late").ok());
  state_->NoteStepEnd(*store_);
  EXPECT_THAT(server_.sent[1], Pair(1u, "a=1 b=0 "));
  ASSERT_TRUE(Put("a", "2").ok());
  Push(2, /*cut=*/2);
  state_->NoteStepEnd(*store_);
  EXPECT_THAT(server_.sent[2], Pair(2u, "a=2 b=0 "));
  ASSERT_TRUE(Put("a", "3").ok());
  Push(3, /*cut=*/2);
  state_->NoteStepEnd(*store_);
  state_->NoteEnd(*store_);
  ASSERT_EQ(server_.sent.size(), 4u);
  EXPECT_THAT(server_.sent[3], Pair(kFinalCut, "a=3 b=0 "));
}

TEST_F(ProgramWorkerStateTest, WhoAsksPutsPiecesWhenTheyAreDue) {
  ASSERT_TRUE(Put("a", "first").ok());
  EXPECT_FALSE(state_->AwaitDue(kAtOnce).value());
  Push(0, /*cut=*/1);
  EXPECT_FALSE(state_->AwaitDue(kAtOnce).value()) << "it is for the next step";
  state_->NoteStepEnd(*store_);
  EXPECT_EQ(server_.sent.size(), 1u);
  EXPECT_TRUE(state_->AwaitDue(kAtOnce).value());
  ASSERT_TRUE(Put("a", "second").ok());
  Push(1, /*cut=*/2);
  state_->NoteStepEnd(*store_);
  EXPECT_THAT(server_.sent.back(), Pair(1u, "a=second "));
  // A program that does not ask in this step is asked in the next one.
  Push(2, /*cut=*/2);
  state_->NoteStepEnd(*store_);
  EXPECT_EQ(server_.sent.size(), 2u);
  EXPECT_TRUE(state_->AwaitDue(kAtOnce).value());
}

TEST_F(ProgramWorkerStateTest, TheServersKnowOfThePiecesBeforeAPush) {
  server_.holds = true;
  ASSERT_TRUE(Put("a", "0").ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(state_->AwaitKnown(*store_, clock_.Now())));
  server_.AnswerOne();
  EXPECT_TRUE(state_->AwaitKnown(*store_, clock_.Now()).ok());
  ASSERT_TRUE(Put("b", "0").ok());
  EXPECT_TRUE(state_->AwaitKnown(*store_, clock_.Now()).ok());
}

TEST_F(ProgramWorkerStateTest, TheLastPiecesFollowTheAnswerToThoseBefore) {
  ASSERT_TRUE(Put("a", "0").ok());
  Push(0, /*cut=*/1);
  state_->NoteStepEnd(*store_);
  server_.holds = true;
  ASSERT_TRUE(Put("a", "1").ok());
  Push(1, /*cut=*/1);
  state_->NoteStepEnd(*store_);
  ASSERT_TRUE(Put("a", "2").ok());
  state_->NoteEnd(*store_);
  EXPECT_THAT(server_.sent.back(), Pair(1u, "a=1 "));
  server_.AnswerOne();
  EXPECT_THAT(server_.sent.back(), Pair(kFinalCut, "a=2 "));
  server_.AnswerOne();
  EXPECT_TRUE(store_->WaitForAll().ok());
}

TEST_F(ProgramWorkerStateTest, PiecesOfTheCheckpointStayUntilOthersArePut) {
  store_->PullOwnState();
  state_->Begin(*store_);
  Push(0, /*cut=*/1);
  state_->NoteStepEnd(*store_);
  Push(1, /*cut=*/1);
  state_->NoteStepEnd(*store_);
  EXPECT_THAT(server_.sent, ElementsAre(Pair(1u, "a=restored ")));
}

TEST_F(ProgramWorkerStateTest, PiecesOfTheCheckpointComeBack) {
  store_->PullOwnState();
  state_->Begin(*store_);
  ASSERT_NE(state_->Get("a"), nullptr);
  EXPECT_EQ(*state_->Get("a"), "restored");
  EXPECT_EQ(state_->Get("b"), nullptr);
}

TEST_F(ProgramWorkerStateTest, WrongPiecesAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Put("", "x")));
  ASSERT_TRUE(Put("a", std::string(kMaxProgramStateBytes / 2, 'x')).ok());
  const absl::Status large = Put("b", std::string(kMaxProgramStateBytes / 2, 'x'));
  EXPECT_THAT(std::string(large.message()), HasSubstr("state b has 33554432 bytes"));
  // Another one of the same name takes its place.
  EXPECT_TRUE(Put("a", std::string(kMaxProgramStateBytes - 100, 'x')).ok());
  tables_[0].mutable_sparse()->set_dim(1);
  ProgramWorkerState without(&clock_, steps_.get(), &tables_, /*has_checkpoints=*/true);
  EXPECT_TRUE(absl::IsFailedPrecondition(without.Put("a", {})));
}

}  // namespace
}  // namespace capstan
