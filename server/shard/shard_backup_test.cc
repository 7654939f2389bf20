// A copy that gets changes which its primary would never send.
#include "server/shard/shard_backup.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/codec/key_list.h"
#include "server/optimizer/table_optimizers.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

constexpr Incarnation kBackup(77);

// Keeps what is sent, and acknowledges it.
class KeepingLink : public ReplicaLink {
 public:
  void Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) override {
    ExchangeReply reply;
    reply.version = record.sequence;
    records.push_back(std::move(record));
    // Payloads may be of memory that is used again.
    const auto bytes = std::make_shared<std::vector<uint8_t>>(records.back().bytes.size_bytes());
    records.back().bytes.CopyTo(absl::MakeSpan(*bytes));
    records.back().bytes = Payload(bytes);
    records.back().bytes.Append(*bytes);
    done(std::move(reply));
  }
  void RunAfter(absl::Duration /*delay*/, absl::AnyInvocable<void()> /*call*/) override {}

  std::vector<ReplicaRecord> records;
};

ShardHost::Options Options(bool is_primary) {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.keeps_open_step = true;
  ShardHost::Table rows;
  rows.name = "rows";
  v1::OptimizerSpec adagrad;
  adagrad.set_type(v1::OptimizerSpec::ROW_ADAGRAD);
  adagrad.set_learning_rate(0.1);
  ShardHost::SparseTable sparse;
  sparse.optimizer = MakeRowOptimizer(adagrad, /*dim=*/2).value();
  sparse.max_idle_steps = 5;
  rows.sparse = sparse;
  options.tables.push_back(rows);
  options.schedules.push_back(options.schedules[0]);
  options.shard_count = 1;
  options.shards = {ShardId(0)};
  options.incarnation = Incarnation(76);
  if (!is_primary) {
    options.backups = std::exchange(options.shards, {});
    options.incarnation = kBackup;
  }
  return options;
}

ExchangeRequest RowsRequest(int worker, int64_t step, const std::vector<uint64_t>& keys) {
  ExchangeRequest request = Request(worker, std::nullopt, std::nullopt);
  request.slice = {TableId(1), SliceIndex(0)};
  RowStep rows;
  const auto floats = std::make_shared<std::vector<float>>(keys.size() * 2, 1.0f);
  rows.push = {Step(step), Gradient{Payload(*floats, floats)}};
  rows.pull = {Step(step + 1)};
  const auto bytes = std::make_shared<std::vector<uint8_t>>(MostKeyListBytes(keys.size()));
  bytes->resize(EncodeKeyList(keys, absl::MakeSpan(*bytes)));
  Payload list{bytes};
  list.Append(*bytes);
  rows.pushed_keys = {static_cast<uint32_t>(keys.size()), HashKeyList(*bytes), list};
  rows.pulled_keys = rows.pushed_keys;
  request.purpose = rows;
  return request;
}

// The changes of two steps of two workers, one of which is lost then.
std::vector<ReplicaRecord> SomeRecords() {
  KeepingLink link;
  const auto host = ShardHost::Create(Options(/*is_primary=*/true)).value();
  host->SetLiveWorkers(Workers({0, 1}));
  host->BeginCopy(ShardId(0), {1, kBackup, &link});
  for (int64_t step = 0; step < 2; ++step) {
    for (int worker = 0; worker < 2; ++worker) {
      PushPull(*host, worker, step, 1);
      Send(*host, RowsRequest(worker, step, {1, 5, 9}));
    }
  }
  Send(*host, Request(1, Step(2), std::nullopt, 3));
  host->SetLiveWorkers(Workers({0}));
  return std::move(link.records);
}

std::unique_ptr<ShardHost> NewBackup() {
  auto host = ShardHost::Create(Options(/*is_primary=*/false)).value();
  host->ExpectCopy(ShardId(0), 1);
  return host;
}

absl::Status Take(ShardHost& host, const ReplicaRecord& record) {
  ExchangeRequest request = Request(0, std::nullopt, std::nullopt);
  request.purpose = record;
  return host.TakeRecord(request).status;
}

bool HasMore(const ReplicaRecord& record) {
  v1::ReplicaChange change;
  EXPECT_TRUE(change.ParseFromString(record.change));
  return change.has_more();
}

// The loss of a worker changes both slices and the members. A copy that takes over in the midst has
// none of that: the members of the view then make all of it.
TEST(ShardBackupTest, AMomentIsThereAsAWholeOrNotAtAll) {
  const std::vector<ReplicaRecord> records = SomeRecords();
  size_t last = records.size() - 1;  // of the latest moment; its first one is behind `first`
  size_t first = last;
  while (HasMore(records[first - 1])) --first;
  ASSERT_LT(first + 1, last);
  const auto contents = [](const ShardHost& host) {
    std::string text;
    host.backup(ShardId(0))->LookAt([&](uint64_t, bool is_whole, const ShardContents& contents) {
      EXPECT_TRUE(is_whole);
      text = absl::StrCat(contents.workers.size(), " workers");
      for (const auto& [key, slice] : contents.slices) {
        absl::StrAppend(&text, ", min_step ", slice->Snapshot().min_step.value());
      }
    });
    return text;
  };
  const auto host = NewBackup();
  for (size_t i = 0; i < first; ++i) ASSERT_TRUE(Take(*host, records[i]).ok());
  const std::string before = contents(*host);
  for (size_t i = first; i < last; ++i) {
    ASSERT_TRUE(Take(*host, records[i]).ok());
    EXPECT_EQ(contents(*host), before) << "after change " << i;
  }
  ASSERT_TRUE(Take(*host, records[last]).ok());
  EXPECT_NE(contents(*host), before);
}

TEST(ShardBackupTest, TakesWhatItsPrimaryHasSent) {
  const auto host = NewBackup();
  for (const ReplicaRecord& record : SomeRecords()) ASSERT_TRUE(Take(*host, record).ok());
}

TEST(ShardBackupTest, RefusesOtherCopiesOtherLivesAndGaps) {
  const std::vector<ReplicaRecord> records = SomeRecords();
  const auto host = NewBackup();
  ReplicaRecord other = records[0];
  other.copy = 2;
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(*host, other)));
  other = records[0];
  other.backup = Incarnation(78);
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(*host, other)));
  EXPECT_TRUE(absl::IsOutOfRange(Take(*host, records[1])));
  EXPECT_TRUE(Take(*host, records[0]).ok());
  EXPECT_TRUE(Take(*host, records[0]).ok()) << "again";
  other = records[0];
  other.shard = ShardId(7);
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(*host, other)));
}

TEST(ShardBackupTest, AfterADifferenceNothingIsTaken) {
  const std::vector<ReplicaRecord> records = SomeRecords();
  const auto host = NewBackup();
  ASSERT_TRUE(Take(*host, records[0]).ok());
  ReplicaRecord broken = records[1];
  broken.change = "no change";
  EXPECT_TRUE(absl::IsDataLoss(Take(*host, broken)));
  EXPECT_TRUE(absl::IsDataLoss(Take(*host, records[1])));
}

// Every byte of a change may be another one, and payloads may be shorter: an error at worst.
TEST(ShardBackupTest, DamagedChangesEndNothing) {
  const std::vector<ReplicaRecord> records = SomeRecords();
  Random random(20261129);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto host = NewBackup();
    const size_t damaged = random() % records.size();
    for (size_t i = 0; i <= damaged; ++i) {
      ReplicaRecord record = records[i];
      if (i == damaged) {
        const uint32_t kind = random() % 3;
        if (kind == 0 && !record.bytes.empty()) {
          record.bytes = record.bytes.Subrange(0, random() % record.bytes.size_bytes());
        } else {
          for (uint32_t bytes = 1 + random() % 3; bytes > 0; --bytes) {
            record.change[random() % record.change.size()] = static_cast<char>(random());
          }
        }
      }
      refused += Take(*host, record).ok() ? 0 : 1;
    }
    for (size_t i = damaged + 1; i < records.size(); ++i) {
      if (!Take(*host, records[i]).ok()) break;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace capstan
