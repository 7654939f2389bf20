#include "server/service/next_steps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

constexpr Incarnation kBackup(77);

// The way to a copy that answers when the test says so.
class WaitingLink : public ReplicaLink {
 public:
  void Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) override {
    sent_.emplace_back(std::move(record), std::move(done));
  }
  void RunAfter(absl::Duration /*delay*/, absl::AnyInvocable<void()> /*call*/) override {}
  void Answer(ShardHost& backup) {
    for (size_t i = 0; i < sent_.size(); ++i) {
      ExchangeRequest request;
      request.sender.job = 99;
      request.purpose = std::move(sent_[i].first);
      ParameterEndpoint::ReplyCallback done = std::move(sent_[i].second);
      done(backup.TakeRecord(request));
    }
    sent_.clear();
  }

 private:
  std::vector<std::pair<ReplicaRecord, ParameterEndpoint::ReplyCallback>> sent_;
};

ShardHost::Options OptionsFor(bool is_primary) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.keeps_open_step = true;
  options.shard_count = 1;
  options.shards = {ShardId(0)};
  if (!is_primary) options.backups = std::exchange(options.shards, {});
  options.incarnation = is_primary ? Incarnation(76) : kBackup;
  return options;
}

// Worker 1 was lost after its first push, and another process is to take its place.
class NextStepsTest : public testing::Test {
 protected:
  NextStepsTest()
      : primary_(ShardHost::Create(OptionsFor(true)).value()),
        backup_(ShardHost::Create(OptionsFor(false)).value()) {
    primary_->SetLiveWorkers(Workers({0, 1}));
    view_.set_epoch(1);
    v1::WorkerInfo& worker = *view_.add_workers();
    worker.set_worker(1);
    worker.set_incarnation(500);
    worker.set_is_live(true);
    worker.set_is_entering(true);
    worker.set_holds_place(true);
  }

  void MakeCopy() {
    backup_->ExpectCopy(ShardId(0), /*number=*/1);
    primary_->BeginCopy(ShardId(0), {/*number=*/1, kBackup, &link_});
    link_.Answer(*backup_);
  }
  void LoseWorker() {
    Send(*primary_, Request(1, Step(0), {}, 1));
    std::vector<ShardHost::Worker> workers = Workers({0, 1});
    workers[1].is_lost = true;
    primary_->SetLiveWorkers(workers);
  }
  void Follow() {
    steps_.Follow(view_, *primary_, [this] { ++found_; });
  }
  // The steps that are told.
  std::vector<int64_t> Told() const {
    v1::HeartbeatRequest heartbeat;
    steps_.Write(&heartbeat);
    std::vector<int64_t> told;
    for (const v1::NextStep& step : heartbeat.next_steps()) told.push_back(step.step());
    return told;
  }

  WaitingLink link_;  // outlives the hosts
  NextSteps steps_;
  const std::unique_ptr<ShardHost> primary_;
  const std::unique_ptr<ShardHost> backup_;
  v1::JobView view_;
  int found_ = 0;
};

TEST_F(NextStepsTest, WithoutCopiesAreToldAtOnce) {
  LoseWorker();
  Follow();
  EXPECT_EQ(Told(), std::vector<int64_t>{0}) << "the second slice has no push";
  EXPECT_EQ(found_, 0);
  view_.mutable_workers(0)->set_is_entering(false);
  Follow();
  EXPECT_EQ(Told(), std::vector<int64_t>());
}

TEST_F(NextStepsTest, AreToldOnceTheCopyHasWhatTheyRestOn) {
  MakeCopy();
  LoseWorker();
  Follow();
  EXPECT_EQ(Told(), std::vector<int64_t>());
  Follow();  // A newer view does not begin anew.
  link_.Answer(*backup_);
  EXPECT_EQ(Told(), std::vector<int64_t>{0});
  EXPECT_EQ(found_, 1);
  Follow();
  EXPECT_EQ(Told(), std::vector<int64_t>{0});
}

TEST_F(NextStepsTest, OfAnEarlierPlacementAreNotTold) {
  MakeCopy();
  LoseWorker();
  Follow();
  view_.set_epoch(2);
  Follow();
  EXPECT_EQ(Told(), std::vector<int64_t>());
  link_.Answer(*backup_);
  EXPECT_EQ(Told(), std::vector<int64_t>{0});
  EXPECT_EQ(found_, 1) << "for the later placement alone";
}

TEST_F(NextStepsTest, OfAnotherProcessInThePlaceAreFoundAnew) {
  MakeCopy();
  LoseWorker();
  Follow();
  view_.mutable_workers(0)->set_incarnation(501);
  link_.Answer(*backup_);
  Follow();
  EXPECT_EQ(Told(), std::vector<int64_t>());
  link_.Answer(*backup_);
  EXPECT_EQ(Told(), std::vector<int64_t>{0});
}

}  // namespace
}  // namespace capstan
