// A host's shards and their copies in another host, under random exchanges, members and losses on
// the way: equal at equal sequences, and no reply before the copy has what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/codec/codec.h"
#include "common/codec/key_list.h"
#include "common/exchange/request_parts.h"
#include "common/routing/key_shard.h"
#include "server/optimizer/table_optimizers.h"
#include "server/shard/compare_copies.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int kWorkers = 3;
constexpr uint32_t kShards = 2;
constexpr size_t kDim = 2;
constexpr Incarnation kBackup(77);

// Calls arrive in order, but may be lost, doubled, or late behind their repetitions.
class LossyLink : public ReplicaLink {
 public:
  LossyLink(ShardHost* backup, Random* random, int loss_percent)
      : backup_(*backup), random_(*random), loss_percent_(loss_percent) {}

  void Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) override {
    auto& sent = sent_[record.shard];
    sent = std::max(sent, {record.copy, record.sequence});
    on_way_.push_back({std::move(record), std::move(done)});
  }
  void RunAfter(absl::Duration /*delay*/, absl::AnyInvocable<void()> call) override {
    retries_.push_back(std::move(call));
  }
  bool is_empty() const { return on_way_.empty() && retries_.empty(); }
  // The latest change that was sent to the newest copy.
  uint64_t sent(ShardId shard) { return sent_[shard].second; }
  // Delivers the next one.
  void Step() {
    if (!on_way_.empty()) {
      Way way = std::move(on_way_.front());
      on_way_.pop_front();
      if (Draws(loss_percent_)) {
        // The connection breaks: all that is on its way gets an answer.
        if (Draws(50)) Take(way.record);
        std::deque<Way> open = std::move(on_way_);
        on_way_.clear();
        const auto lost = absl::UnavailableError("the connection has broken");
        way.done(ErrorReply(lost));
        for (Way& one : open) {
          if (Draws(20)) late_.push_back(one.record);
          one.done(ErrorReply(lost));
        }
        return;
      }
      if (Draws(loss_percent_)) Take(way.record);  // twice
      if (!late_.empty() && Draws(30)) {
        Take(late_.back());
        late_.pop_back();
      }
      return way.done(Take(way.record));
    }
    if (retries_.empty()) return;
    auto retry = std::move(retries_.front());
    retries_.pop_front();
    retry();
  }

 private:
  struct Way {
    ReplicaRecord record;
    ParameterEndpoint::ReplyCallback done;
  };

  bool Draws(int percent) { return static_cast<int>(random_() % 100) < percent; }
  ExchangeReply Take(const ReplicaRecord& record) {
    ExchangeRequest request;
    request.sender.job = 99;
    request.purpose = record;
    return backup_.TakeRecord(request);
  }

  ShardHost& backup_;
  Random& random_;
  const int loss_percent_;
  std::map<ShardId, std::pair<uint64_t, uint64_t>> sent_;  // copy and sequence
  std::deque<Way> on_way_;
  std::deque<absl::AnyInvocable<void()>> retries_;
  std::vector<ReplicaRecord> late_;
};

struct Scenario {
  ConsistencyMode mode = ConsistencyMode::kBsp;
  std::string push = "float32";
  std::string pull = "float32";
  bool keeps_open_step = false;
  bool has_ages = false;
  int loss_percent = 0;
};

std::string Text(const Scenario& scenario) {
  return absl::StrCat("mode ", static_cast<int>(scenario.mode), ", push ", scenario.push, ", pull ",
                      scenario.pull, scenario.keeps_open_step ? ", open step kept" : "",
                      scenario.has_ages ? ", ages" : "", ", loss ", scenario.loss_percent);
}

ShardHost::Options OptionsOf(const Scenario& scenario, bool is_primary) {
  ShardHost::Options options = HostOptions(scenario.mode, /*staleness=*/2);
  options.update_scale = UpdateScale::kStaleness;
  options.tables[0].codecs.push = MakeCodec(scenario.push).value();
  options.tables[0].codecs.pull = MakeCodec(scenario.pull).value();
  options.own_arrays = 1;
  options.reply_state_bytes = 1 << 20;
  options.keeps_open_step = scenario.keeps_open_step;
  options.has_programs = true;
  v1::OptimizerSpec adam;
  adam.set_type(v1::OptimizerSpec::ADAM);
  adam.set_learning_rate(0.1);
  options.optimizer = MakeOptimizer(adam).value();
  ShardHost::Table rows;
  rows.name = "rows";
  rows.initial_stddev = 0.1;
  rows.codecs.push = MakeCodec(scenario.push == "int8" ? "int8" : "float32").value();
  v1::OptimizerSpec adagrad;
  adagrad.set_type(v1::OptimizerSpec::ROW_ADAGRAD);
  adagrad.set_learning_rate(0.1);
  ShardHost::SparseTable sparse;
  sparse.optimizer = MakeRowOptimizer(adagrad, kDim).value();
  if (scenario.has_ages) {
    sparse.admitting_push = 2;
    sparse.max_idle_steps = 3;
    sparse.max_rows = 20;
  }
  rows.sparse = sparse;
  options.tables.push_back(rows);
  options.schedules.push_back(options.schedules[0]);
  if (!is_primary) options.backups = std::exchange(options.shards, {});
  options.incarnation = is_primary ? Incarnation(76) : kBackup;
  return options;
}

// Workers that do their steps in a random order, and are replaced, lost and removed.
class CopiedHostRun {
 public:
  CopiedHostRun(const Scenario& scenario, uint64_t seed)
      : scenario_(scenario),
        random_(seed),
        primary_(ShardHost::Create(OptionsOf(scenario, true)).value()),
        backup_(ShardHost::Create(OptionsOf(scenario, false)).value()),
        link_(backup_.get(), &random_, scenario.loss_percent) {
    for (int i = 0; i < kWorkers; ++i) workers_.push_back({WorkerId(i), Incarnation(1000 + i)});
    primary_->SetLiveWorkers(workers_);
    for (uint32_t table = 0; table < 2; ++table) {
      for (uint32_t slice = 0; slice < 2; ++slice) {
        for (int worker = 0; worker < kWorkers; ++worker) {
          next_[{worker, {TableId(table), SliceIndex(slice)}}] = 0;
        }
      }
    }
  }

  void Run(int actions) {
    const int begins_at = static_cast<int>(Below(static_cast<uint32_t>(actions) / 2));
    for (int i = 0; i < actions && !testing::Test::HasFailure(); ++i) {
      if (i == begins_at || (i > begins_at && Below(200) == 0)) BeginCopies();
      Act();
      while (Below(3) == 0) link_.Step();
    }
    Settle();
    for (uint32_t shard = 0; shard < kShards; ++shard) Compare(ShardId(shard));
  }

  int compared() const { return compared_; }
  int answered() const { return answered_; }
  int checked() const { return checked_; }

 private:
  using Place = std::pair<int, SliceKey>;

  uint32_t Below(uint32_t limit) { return random_() % limit; }

  // The first copies, or further ones in their place.
  void BeginCopies() {
    ++number_;
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      const bool backup_is_first = Below(2) == 0;
      if (backup_is_first) backup_->ExpectCopy(ShardId(shard), number_);
      primary_->BeginCopy(ShardId(shard), {number_, kBackup, &link_});
      if (!backup_is_first) backup_->ExpectCopy(ShardId(shard), number_);
    }
  }

  void Act() {
    const uint32_t draw = Below(100);
    const int worker = static_cast<int>(Below(kWorkers));
    if (draw < 4) return ChangeMembers(worker);
    if (draw < 6) return SendState(worker);
    if (draw < 12) return SendCollective(worker);
    if (draw < 14) {
      primary_->CutAt(primary_->HoldBack(), [](const ShardSnapshot&) {});
      return;
    }
    if (draw < 16) {
      for (int i = 0; i < 10000 && !link_.is_empty(); ++i) link_.Step();
      for (uint32_t shard = 0; shard < kShards; ++shard) Compare(ShardId(shard));
    }
    SendStep(worker);
  }

  void ChangeMembers(int worker) {
    ShardWorker& member = workers_[static_cast<size_t>(worker)];
    const uint32_t draw = Below(3);
    if (draw == 0 && scenario_.mode == ConsistencyMode::kBsp && scenario_.keeps_open_step) {
      member.is_lost = true;
      primary_->SetLiveWorkers(workers_);
      member.is_lost = false;
    }
    if (draw == 1) {
      std::vector<ShardWorker> others = workers_;
      others.erase(others.begin() + worker);
      primary_->SetLiveWorkers(others);
    }
    member.incarnation = Incarnation(member.incarnation.value() + 100);
    member.is_entering = true;
    primary_->SetLiveWorkers(workers_);
    member.is_entering = false;
    const bool does_again = draw == 0 && scenario_.keeps_open_step;
    member.first_step =
        does_again ? primary_->OpenStep(member.worker) : primary_->NextStep(member.worker);
    primary_->SetLiveWorkers(workers_);
    for (auto& [place, next] : next_) {
      if (place.first == worker) next = member.first_step.value();
    }
  }

  ExchangeRequest NewRequest(int worker, SliceKey slice) {
    ExchangeRequest request;
    request.sender = {99, WorkerId(worker), workers_[static_cast<size_t>(worker)].incarnation};
    request.epoch = Epoch(1);
    request.slice = slice;
    return request;
  }

  Payload Floats(size_t count) {
    const auto floats = std::make_shared<std::vector<float>>(count);
    for (float& value : *floats) value = random_.Normal();
    return Payload(*floats, floats);
  }

  Gradient Encoded(const Codec& codec, size_t count) {
    const Payload floats = Floats(count);
    if (!codec.is_lossy()) return {floats, CodecType::kFloat32};
    std::vector<float> values(count);
    floats.CopyTo(absl::MakeSpan(values));
    const auto bytes = std::make_shared<std::vector<uint8_t>>(codec.EncodedBytes(count));
    EXPECT_TRUE(codec.Encode(values, DrawKey(), {}, absl::MakeSpan(*bytes)).ok());
    Payload payload{bytes};
    payload.Append(*bytes);
    return {payload, codec.type()};
  }

  KeyList RandomKeys(ShardId shard) {
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < 80; ++key) {
      if (ShardOfKey(key, kShards) == shard && Below(4) == 0) keys.push_back(key);
    }
    KeyList list;
    list.rows = static_cast<uint32_t>(keys.size());
    if (keys.empty()) return list;
    const auto bytes = std::make_shared<std::vector<uint8_t>>(MostKeyListBytes(keys.size()));
    bytes->resize(EncodeKeyList(keys, absl::MakeSpan(*bytes)));
    list.hash = HashKeyList(*bytes);
    Payload payload{bytes};
    payload.Append(*bytes);
    list.bytes = payload;
    return list;
  }

  void SendStep(int worker) {
    auto place = next_.begin();
    std::advance(place, Below(static_cast<uint32_t>(next_.size())));
    while (place->first.first != worker) place = next_.begin(), worker = place->first.first;
    std::vector<std::map<Place, int64_t>::iterator> own;
    for (auto it = next_.begin(); it != next_.end(); ++it) {
      if (it->first.first == worker) own.push_back(it);
    }
    place = own[Below(static_cast<uint32_t>(own.size()))];
    const SliceKey slice = place->first.second;
    const bool pushes = Below(5) > 0;
    const bool pulls = !pushes || Below(4) > 0;
    const int64_t step = place->second;
    std::optional<StepPush> push;
    if (pushes) {
      push = {Step(step)};
      if (Below(4) == 0) push->rates.learning_rate = 0.05;
      if (Below(3) == 0) push->base_version = 0;
    }
    std::optional<StepPull> pull;
    if (pulls) pull = {Step(pushes ? step + 1 : step), Below(5) == 0};
    ExchangeRequest request = NewRequest(worker, slice);
    const bool is_empty = Below(6) == 0;
    if (slice.table == TableId(0)) {
      if (pushes && !is_empty) {
        push->gradient =
            Encoded(*MakeCodec(scenario_.push).value(), slice.slice == SliceIndex(0) ? 16 : 4);
      }
      request.purpose = DenseStep{push, pull, Below(3) == 0 ? 0 : copies_[place->first]};
    } else {
      RowStep rows{push, pull};
      const ShardId shard(slice.slice.value());
      if (pushes && !is_empty) {
        rows.pushed_keys = RandomKeys(shard);
        if (rows.pushed_keys.rows > 0) {
          const auto codec = MakeCodec(scenario_.push == "int8" ? "int8" : "float32").value();
          rows.push->gradient = Encoded(*codec, rows.pushed_keys.rows * kDim);
        }
      }
      if (pulls) rows.pulled_keys = RandomKeys(shard);
      request.purpose = rows;
    }
    const bool again = Below(10) == 0;
    const Place where = place->first;
    if (again) Send(where, step, pushes, ExchangeRequest(request));
    Send(where, step, pushes, std::move(request));
  }

  void Send(const Place& place, int64_t step, bool pushes, ExchangeRequest request) {
    const Incarnation sender = request.sender.incarnation;
    const ShardId shard = ShardOf(place.second);
    const std::optional<CopyProgress> copy = primary_->shard(shard)->copy_progress();
    const bool is_whole = copy.has_value() && copy->is_whole;
    const uint64_t sent = link_.sent(shard);
    const uint64_t number = is_whole ? number_ : 0;
    primary_->Exchange(
        std::move(request), [] {},
        [this, place, step, pushes, sender, shard, number, sent](const ExchangeReply& reply) {
          if (!reply.status.ok()) return;
          ++answered_;
          if (number > 0 && number == number_) CheckCopyHas(shard, place.second, sent, reply);
          if (sender != workers_[static_cast<size_t>(place.first)].incarnation) return;
          if (reply.copy != 0) copies_[place] = reply.copy;
          if (pushes) next_[place] = std::max(next_[place], step + 1);
        });
  }

  ShardId ShardOf(SliceKey slice) const {
    ShardId found;
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      primary_->shard(ShardId(shard))->LookAt([&](uint64_t, const ShardContents& contents) {
        if (contents.slices.count(slice) > 0) found = ShardId(shard);
      });
    }
    return found;
  }

  // A reply leaves: the copy has its version, and a change that was sent after the request came.
  void CheckCopyHas(ShardId shard, SliceKey key, uint64_t sent, const ExchangeReply& reply) {
    ++checked_;
    backup_->backup(shard)->LookAt(
        [&](uint64_t done, bool /*is_whole*/, const ShardContents& copied) {
          EXPECT_GT(done, sent);
          EXPECT_GE(copied.slices.at(key)->version(), reply.version);
        });
  }

  void SendState(int worker) {
    ExchangeRequest request = NewRequest(worker, {TableId(0), SliceIndex(0)});
    const uint32_t draw = Below(3);
    if (draw == 0) {
      // The slice's own array, and the residual of a lossy codec.
      const size_t arrays = scenario_.push == "float32" ? 1 : 2;
      request.purpose = WorkerState{kFinalCut, Floats(arrays * 16)};
    } else if (draw == 1) {
      request.purpose = WorkerState{Below(2), Floats(5), /*is_program=*/true};
    } else {
      request.sender.worker = WorkerId(0);
      request.sender.incarnation = workers_[0].incarnation;
      request.purpose = OptimizerState{Below(2), 3, Floats(16)};
    }
    primary_->Exchange(
        std::move(request), [] {}, [](const ExchangeReply&) {});
  }

  void SendCollective(int worker) {
    ExchangeRequest request = NewRequest(worker, kCollectiveSlice);
    Collective part;
    const auto& [step, number] = operation_[worker];
    part.step = Step(step);
    part.number = number;
    const uint32_t draw = Below(10);
    part.type = draw < 6   ? CollectiveType::kSum
                : draw < 8 ? CollectiveType::kEndOfStep
                           : CollectiveType::kBarrier;
    if (part.type == CollectiveType::kSum) {
      part.shape = {3};
      part.values = Floats(3);
    }
    if (part.type == CollectiveType::kEndOfStep) {
      ++operation_[worker].first;
      operation_[worker].second = 0;
    } else {
      ++operation_[worker].second;
    }
    request.purpose = part;
    primary_->Exchange(
        std::move(request), [] {}, [](const ExchangeReply&) {});
  }

  void Settle() {
    for (int i = 0; i < 100000 && !link_.is_empty(); ++i) link_.Step();
    ASSERT_TRUE(link_.is_empty()) << "changes go on without end";
    for (const auto& [shard, progress] : primary_->copies()) {
      EXPECT_EQ(progress.fault, "") << "shard " << shard.value();
      EXPECT_TRUE(progress.is_whole) << "shard " << shard.value();
      EXPECT_EQ(progress.held_replies, 0u);
      EXPECT_EQ(progress.records_unanswered, 0u);
    }
  }

  void Compare(ShardId id) {
    primary_->shard(id)->LookAt([&](uint64_t sequence, const ShardContents& contents) {
      backup_->backup(id)->LookAt([&](uint64_t done, bool is_whole, const ShardContents& copied) {
        if (!is_whole || done != sequence) return;
        ++compared_;
        EXPECT_EQ(DifferenceOf(contents, copied), "")
            << "shard " << id.value() << " at change " << sequence;
      });
    });
  }

  const Scenario scenario_;
  Random random_;
  std::unique_ptr<ShardHost> primary_;
  std::unique_ptr<ShardHost> backup_;
  LossyLink link_;
  std::vector<ShardWorker> workers_;
  std::map<Place, int64_t> next_;
  std::map<Place, uint64_t> copies_;
  std::map<int, std::pair<int64_t, uint64_t>> operation_;
  uint64_t number_ = 0;  // of the copies
  int compared_ = 0;
  int answered_ = 0;
  int checked_ = 0;
};

class ShardCopiesTest : public testing::TestWithParam<int> {};

TEST_P(ShardCopiesTest, AreEqualToTheirShards) {
  int compared = 0;
  int answered = 0;
  int checked = 0;
  for (uint64_t i = 0; i < 60 && !HasFailure(); ++i) {
    const uint64_t seed = 1000 * static_cast<uint64_t>(GetParam()) + i;
    Random random(seed);
    Scenario scenario;
    scenario.mode = static_cast<ConsistencyMode>((random() % 3));
    const char* const pushes[] = {"float32", "int8", "topk:0.25"};
    scenario.push = pushes[(random() % 3)];
    scenario.pull = pushes[(random() % 3)];
    if (scenario.mode == ConsistencyMode::kBsp && scenario.pull != "topk:0.25") {
      scenario.keeps_open_step = (random() % 2) == 0;
    }
    scenario.has_ages = (random() % 2) == 0;
    scenario.loss_percent = (random() % 2) == 0 ? 0 : 5;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", Text(scenario)));
    CopiedHostRun run(scenario, seed);
    run.Run(/*actions=*/400);
    compared += run.compared();
    answered += run.answered();
    checked += run.checked();
  }
  EXPECT_GT(compared, 300);
  EXPECT_GT(checked, 1000);
  RecordProperty("compared", compared);
  RecordProperty("answered", answered);
  RecordProperty("checked", checked);
}
INSTANTIATE_TEST_SUITE_P(Seeds, ShardCopiesTest, testing::Range(0, 5));

// Delivers nothing.
class SilentLink : public ReplicaLink {
 public:
  void Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) override {
    open_.emplace_back(std::move(record), std::move(done));
  }
  void RunAfter(absl::Duration /*delay*/, absl::AnyInvocable<void()> call) override {
    later_ = std::move(call);
  }

  // Runs what was to run later.
  void RunLater() { std::exchange(later_, nullptr)(); }
  // Number of records that were sent and not answered yet.
  size_t num_open() const { return open_.size(); }
  // The shards, with the numbers of their copies, to which something was sent and not answered yet.
  std::set<std::pair<uint32_t, uint64_t>> sent() const {
    std::set<std::pair<uint32_t, uint64_t>> sent;
    for (const auto& [record, done] : open_) sent.emplace(record.shard.value(), record.copy);
    return sent;
  }

  // All that was sent is refused.
  void Refuse(const absl::Status& status = absl::DataLossError("it differs")) {
    for (auto& [record, done] : std::exchange(open_, {})) done(ErrorReply(status));
  }

  // The copy answers all that was sent.
  void Answer(ShardHost* backup) {
    while (!open_.empty()) {
      auto [record, done] = std::move(open_.front());
      open_.pop_front();
      ExchangeRequest request;
      request.sender.job = 99;
      request.purpose = record;
      done(backup->TakeRecord(request));
    }
  }

 private:
  std::deque<std::pair<ReplicaRecord, ParameterEndpoint::ReplyCallback>> open_;
  absl::AnyInvocable<void()> later_;
};

TEST(ShardCopiesReadersTest, RowsThatWaitForACopyAreBounded) {
  const auto primary = ShardHost::Create(OptionsOf({}, true)).value();
  const auto backup = ShardHost::Create(OptionsOf({}, false)).value();
  primary->SetLiveWorkers(Workers({0}));
  SilentLink link;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    backup->ExpectCopy(ShardId(shard), 1);
    primary->BeginCopy(ShardId(shard), {1, kBackup, &link});
  }
  link.Answer(backup.get());
  std::vector<uint64_t> keys;  // of shard 0
  for (uint64_t key = 0; keys.size() < 512; ++key) {
    if (ShardOfKey(key, kShards) == ShardId(0)) keys.push_back(key);
  }
  int answered = 0;
  absl::Status status;
  const auto read = [&] {
    primary->ReadRows("rows", keys,
                      [&](const absl::StatusOr<std::vector<std::vector<float>>>& rows) {
                        ++answered;
                        status = rows.status();
                      });
  };
  // A read takes its values, 64 bytes a row, and 4 KiB.
  const int fit = (8 << 20) / (4096 + 512 * (64 + kDim * 4)) + 1;
  for (int i = 0; i < fit; ++i) read();
  EXPECT_EQ(answered, 0);
  read();
  EXPECT_EQ(answered, 1);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  link.Answer(backup.get());
  EXPECT_EQ(answered, 1 + fit);
  EXPECT_TRUE(status.ok()) << status;
  read();
  link.Answer(backup.get());
  EXPECT_EQ(answered, 2 + fit);
  EXPECT_TRUE(status.ok()) << status;
}

// Five shards. The copies of the first four are on one server, that of the last is on another.
class ShardCopiesTurnsTest : public testing::Test {
 protected:
  static constexpr uint32_t kManyShards = 5;

  ShardCopiesTurnsTest()
      : primary_(ShardHost::Create(Options(/*is_primary=*/true)).value()),
        backup_(ShardHost::Create(Options(/*is_primary=*/false)).value()) {
    for (uint32_t shard = 0; shard < kManyShards; ++shard) Begin(shard, /*number=*/1);
  }

  static ShardHost::Options Options(bool is_primary) {
    ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
    options.tables[0].elements = kManyShards * 16;
    options.shard_count = kManyShards;
    options.shards.clear();
    for (uint32_t shard = 0; shard < kManyShards; ++shard) {
      (is_primary ? options.shards : options.backups).emplace_back(shard);
    }
    options.incarnation = is_primary ? Incarnation(76) : kBackup;
    return options;
  }
  void Begin(uint32_t shard, uint64_t number) {
    backup_->ExpectCopy(ShardId(shard), number);
    SilentLink& link = shard + 1 == kManyShards ? other_ : link_;
    primary_->BeginCopy(ShardId(shard), {number, kBackup, &link});
  }

  SilentLink link_, other_;  // outlive the hosts
  const std::unique_ptr<ShardHost> primary_;
  const std::unique_ptr<ShardHost> backup_;
};

TEST_F(ShardCopiesTurnsTest, TwoAreMadeAtATimeForEachServer) {
  EXPECT_THAT(link_.sent(), ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_THAT(other_.sent(), ElementsAre(Pair(4, 1)));
  uint64_t bytes = 0;
  for (const auto& [shard, copy] : primary_->copies()) {
    EXPECT_EQ(copy.number, 1u);
    EXPECT_FALSE(copy.is_whole);
    bytes += copy.bytes_to_copy;
  }
  EXPECT_EQ(bytes, kManyShards * 16 * sizeof(float)) << "also of copies that wait for their turn";
  link_.Answer(backup_.get());
  other_.Answer(backup_.get());
  ASSERT_EQ(primary_->copies().size(), kManyShards);
  for (const auto& [shard, copy] : primary_->copies()) EXPECT_TRUE(copy.is_whole);
}

TEST_F(ShardCopiesTurnsTest, OneThatIsGivenUpMakesRoom) {
  link_.Refuse();
  EXPECT_THAT(link_.sent(), ElementsAre(Pair(2, 1), Pair(3, 1)));
  link_.Answer(backup_.get());
  for (const auto& [shard, copy] : primary_->copies()) {
    EXPECT_EQ(copy.fault, shard < ShardId(2) ? "it differs" : "");
  }
}

TEST_F(ShardCopiesTurnsTest, TheNewestCopyOfAShardIsMade) {
  Begin(3, /*number=*/2);  // it waits
  Begin(0, /*number=*/2);  // it was being made; now it is another's turn
  EXPECT_THAT(link_.sent(), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 1)));
  link_.Answer(backup_.get());
  for (const auto& [shard, copy] : primary_->copies()) {
    if (shard == ShardId(4)) continue;
    EXPECT_EQ(copy.number, shard == ShardId(3) || shard == ShardId(0) ? 2u : 1u);
    EXPECT_TRUE(copy.is_whole);
  }
}

TEST_F(ShardCopiesTurnsTest, AnOlderCopyTakesNoPlace) {
  link_.Answer(backup_.get());
  bool is_made = false;
  BufferPool pool;
  Shard& shard = const_cast<Shard&>(*primary_->shard(ShardId(0)));
  shard.BeginCopy(ShardId(0), {1, kBackup, &link_}, &pool, [&is_made] { is_made = true; });
  EXPECT_TRUE(is_made);
  EXPECT_TRUE(shard.copy_progress()->is_whole);
  EXPECT_THAT(link_.sent(), IsEmpty());
}

TEST_F(ShardCopiesTurnsTest, NoneIsBegunOnceTheHostHasEnded) {
  primary_->End(absl::UnavailableError("the job has ended"));
  EXPECT_THAT(link_.sent(), ElementsAre(Pair(0, 1), Pair(1, 1)));
  Begin(2, /*number=*/2);
  link_.Answer(backup_.get());
  EXPECT_THAT(link_.sent(), IsEmpty());
}

// A shard with one worker, whose copy is whole.
class ShardTakeOverTest : public testing::Test {
 protected:
  static ShardHost::Options OptionsFor(bool is_primary) {
    ShardHost::Options options = HostOptions(ConsistencyMode::kAsync);
    options.tables[0].codecs.pull = MakeCodec("topk:0.25").value();
    options.reply_state_bytes = 1 << 20;
    options.shard_count = 1;
    options.shards = {ShardId(0)};
    if (!is_primary) options.backups = std::exchange(options.shards, {});
    options.incarnation = is_primary ? Incarnation(76) : kBackup;
    return options;
  }

  ShardTakeOverTest()
      : primary_(ShardHost::Create(OptionsFor(true)).value()),
        backup_(ShardHost::Create(OptionsFor(false)).value()) {
    primary_->SetLiveWorkers(Workers({0}));
    BeginCopy(/*number=*/1);
  }

  void BeginCopy(uint64_t number) {
    backup_->ExpectCopy(ShardId(0), number);
    primary_->BeginCopy(ShardId(0), {number, kBackup, &link_});
  }
  absl::Status TakeOver(Epoch epoch) {
    return backup_->TakeOver(ShardId(0), epoch, Workers({0}),
                             HostOptions(ConsistencyMode::kAsync).schedules);
  }
  std::shared_ptr<Result> Send(ShardHost& host, int64_t step, Epoch epoch, uint64_t copy = 0) {
    ExchangeRequest request = Request(0, Step(step), Step(step + 1), 1);
    request.epoch = epoch;
    std::get<DenseStep>(request.purpose).copy = copy;
    return capstan::Send(host, std::move(request));
  }

  SilentLink link_;  // outlives the hosts
  const std::unique_ptr<ShardHost> primary_;
  const std::unique_ptr<ShardHost> backup_;
};

TEST_F(ShardTakeOverTest, TheCopyGoesOnWhereTheShardWas) {
  link_.Answer(backup_.get());
  const auto first = Send(*primary_, 0, Epoch(1));
  link_.Answer(backup_.get());
  ASSERT_TRUE(first->reply.status.ok()) << first->reply.status;
  EXPECT_FALSE(backup_->is_primary(ShardId(0)));
  const auto early = Send(*backup_, 0, Epoch(2));
  EXPECT_TRUE(absl::IsUnavailable(early->reply.status)) << "the epoch is not known yet";
  ASSERT_TRUE(TakeOver(Epoch(2)).ok());
  EXPECT_TRUE(backup_->is_primary(ShardId(0)));
  backup_->SetEpoch(Epoch(2));
  const auto same = Send(*backup_, 0, Epoch(2));
  ASSERT_TRUE(same->reply.status.ok()) << same->reply.status;
  EXPECT_EQ(same->reply.version, 1u) << "the push was applied before";
  const auto next = Send(*backup_, 1, Epoch(2));
  EXPECT_EQ(next->reply.version, 2u);
  const auto old = Send(*backup_, 2, Epoch(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(old->reply.status)) << old->reply.status;
  EXPECT_EQ(old->reply.epoch, Epoch(2));
}

TEST_F(ShardTakeOverTest, TheEarlierPrimaryAnswersNobodyAnyMore) {
  link_.Answer(backup_.get());
  ASSERT_TRUE(TakeOver(Epoch(2)).ok());
  const auto late = Send(*primary_, 0, Epoch(1));
  link_.Answer(backup_.get());
  EXPECT_EQ(late->replies, 0);
  primary_->End(absl::UnavailableError("the server has ended"));
  EXPECT_TRUE(absl::IsUnavailable(late->reply.status)) << late->reply.status;
  backup_->SetEpoch(Epoch(2));
  EXPECT_EQ(Send(*backup_, 0, Epoch(2))->reply.version, 1u) << "it is applied once";
}

TEST_F(ShardTakeOverTest, ACopyThatIsNotWholeDoesNotTakeOver) {
  EXPECT_TRUE(absl::IsDataLoss(TakeOver(Epoch(2)))) << TakeOver(Epoch(2));
  EXPECT_FALSE(backup_->is_primary(ShardId(0)));
  link_.Answer(backup_.get());
  backup_->DropCopy(ShardId(0), /*number=*/2);
  EXPECT_TRUE(absl::IsDataLoss(TakeOver(Epoch(2)))) << "another one is made elsewhere";
}

TEST_F(ShardTakeOverTest, RepliesWaitForAWholeCopyThatFailsUntilItIsNotWantedAnyMore) {
  link_.Answer(backup_.get());
  const auto pushed = Send(*primary_, 0, Epoch(1));
  link_.Refuse();
  const auto other = Send(*primary_, 1, Epoch(1));
  EXPECT_EQ(primary_->copies()[0].second.fault, "it differs");
  EXPECT_FALSE(primary_->copies()[0].second.is_whole);
  EXPECT_EQ(pushed->replies + other->replies, 0) << "the coordinator may have the copy take over";
  primary_->EndCopy(ShardId(0), /*number=*/0);
  EXPECT_EQ(pushed->replies, 0) << "this is another copy";
  primary_->EndCopy(ShardId(0), /*number=*/1);
  EXPECT_EQ(pushed->reply.version, 1u);
  EXPECT_EQ(other->reply.version, 2u);
}

// A demoted primary may not hear of it for long.
TEST_F(ShardTakeOverTest, ACopyThatRefusesChangesIsAskedWithOneAtATime) {
  link_.Answer(backup_.get());
  for (int step = 0; step < 5; ++step) Send(*primary_, step, Epoch(1));
  EXPECT_GT(link_.num_open(), 4u);
  for (int i = 0; i < 3; ++i) {
    link_.Refuse(absl::FailedPreconditionError("this server is the shard's primary now"));
    EXPECT_EQ(link_.num_open(), 0u);
    link_.RunLater();
    EXPECT_EQ(link_.num_open(), 1u);
  }
  Send(*primary_, 5, Epoch(1));
  EXPECT_EQ(link_.num_open(), 1u);
  const auto last = Send(*primary_, 6, Epoch(1));
  link_.Answer(backup_.get());
  EXPECT_EQ(last->reply.version, 7u) << "then all others are sent";
}

TEST_F(ShardTakeOverTest, WhatIsTrueAfterCopiesIsKnownOnceTheyHaveEverything) {
  int times = 0;
  primary_->AfterCopies([&times] { ++times; });
  EXPECT_EQ(times, 1) << "replies do not wait for a copy that is being made";
  link_.Answer(backup_.get());
  primary_->AfterCopies([&times] { ++times; });
  EXPECT_EQ(times, 1);
  link_.Answer(backup_.get());
  EXPECT_EQ(times, 2);
  ASSERT_TRUE(TakeOver(Epoch(2)).ok());
  primary_->AfterCopies([&times] { ++times; });
  link_.Answer(backup_.get());
  EXPECT_EQ(times, 2) << "another server is the primary now";
  primary_->End(absl::UnavailableError("the server has ended"));
  primary_->AfterCopies([&times] { ++times; });
  EXPECT_EQ(times, 2);
}

TEST_F(ShardTakeOverTest, ACopyThatHasEndedIsNotBegun) {
  primary_->EndCopy(ShardId(0), /*number=*/2);
  BeginCopy(/*number=*/2);
  EXPECT_TRUE(Send(*primary_, 0, Epoch(1))->reply.status.ok()) << "nothing waits for it";
  link_.Answer(backup_.get());
  EXPECT_FALSE(primary_->copies()[0].second.is_whole);
  BeginCopy(/*number=*/3);
  link_.Answer(backup_.get());
  EXPECT_TRUE(primary_->copies()[0].second.is_whole);
}

TEST_F(ShardTakeOverTest, ACopyThatFailsWhileItIsMadeHoldsNobody) {
  const auto pushed = Send(*primary_, 0, Epoch(1));
  link_.Refuse();
  EXPECT_TRUE(pushed->reply.status.ok()) << pushed->reply.status;
  EXPECT_TRUE(Send(*primary_, 1, Epoch(1))->reply.status.ok());
}

TEST_F(ShardTakeOverTest, NumbersOfWhatWorkersHaveAreNotGivenAgain) {
  link_.Answer(backup_.get());
  const auto first = Send(*primary_, 0, Epoch(1));
  link_.Answer(backup_.get());
  ASSERT_GT(first->reply.copy, 0u);
  ASSERT_TRUE(TakeOver(Epoch(2)).ok());
  backup_->SetEpoch(Epoch(2));
  // The new primary does not have what the worker has, so it gets all values.
  const auto next = Send(*backup_, 1, Epoch(2), first->reply.copy);
  EXPECT_EQ(next->reply.codec, CodecType::kFloat32);
  EXPECT_GT(next->reply.copy, first->reply.copy);
}

// Delivers on a thread of its own.
class ThreadLink : public ReplicaLink {
 public:
  explicit ThreadLink(ShardHost* backup) : backup_(*backup), thread_([this] { Run(); }) {}
  ~ThreadLink() override {
    {
      MutexLock lock(&mu_);
      is_stopping_ = true;
    }
    thread_.join();
  }

  void Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) override {
    MutexLock lock(&mu_);
    queue_.emplace_back(std::move(record), std::move(done));
  }
  void RunAfter(absl::Duration /*delay*/, absl::AnyInvocable<void()> /*call*/) override {}

 private:
  void Run() {
    while (true) {
      std::deque<std::pair<ReplicaRecord, ParameterEndpoint::ReplyCallback>> taken;
      bool is_last = false;
      {
        MutexLock lock(&mu_);
        taken.swap(queue_);
        is_last = is_stopping_ && taken.empty();
      }
      if (is_last) return;
      for (auto& [record, done] : taken) {
        ExchangeRequest request;
        request.sender.job = 99;
        request.purpose = std::move(record);
        done(backup_.TakeRecord(request));
      }
      if (taken.empty()) std::this_thread::yield();
    }
  }

  ShardHost& backup_;
  Mutex mu_;
  std::deque<std::pair<ReplicaRecord, ParameterEndpoint::ReplyCallback>> queue_
      ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

TEST(ShardCopiesThreadsTest, WorkersTrainWhileCopiesAreMadeAndFollow) {
  for (const ConsistencyMode mode : {ConsistencyMode::kBsp, ConsistencyMode::kAsync}) {
    Scenario scenario;
    scenario.mode = mode;
    const auto primary = ShardHost::Create(OptionsOf(scenario, true)).value();
    const auto backup = ShardHost::Create(OptionsOf(scenario, false)).value();
    ThreadLink link(backup.get());
    primary->SetLiveWorkers(Workers({0, 1, 2}));
    std::vector<std::thread> workers;
    for (int worker = 0; worker < kWorkers; ++worker) {
      workers.emplace_back([&primary, worker] {
        for (int64_t step = 0; step < 200; ++step) {
          std::atomic<bool> is_answered = false;
          primary->Exchange(
              Request(worker, Step(step), Step(step + 1), 1), [] {},
              [&is_answered](const ExchangeReply& reply) {
                EXPECT_TRUE(reply.status.ok()) << reply.status;
                is_answered = true;
              });
          while (!is_answered) std::this_thread::yield();
        }
      });
    }
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      backup->ExpectCopy(ShardId(shard), 1);
      primary->BeginCopy(ShardId(shard), {1, kBackup, &link});
    }
    const auto look_at_copies = [&primary] {
      bool are_whole = true;
      for (const auto& [shard, copy] : primary->copies()) {
        are_whole &= copy.is_whole && copy.records_unanswered == 0;
      }
      return are_whole;
    };
    for (std::thread& worker : workers) worker.join();
    while (!look_at_copies()) std::this_thread::yield();
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      primary->shard(ShardId(shard))->LookAt([&](uint64_t, const ShardContents& contents) {
        backup->backup(ShardId(shard))->LookAt([&](uint64_t, bool, const ShardContents& copied) {
          EXPECT_EQ(DifferenceOf(contents, copied), "");
        });
      });
    }
  }
}

}  // namespace
}  // namespace capstan
