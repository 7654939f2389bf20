#include "server/checkpoint/checkpoint_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "server/sparse/row_table.h"
#include "server/sparse/rows_cut.h"

namespace capstan {
namespace {

// Keeps the names of what is written. Thread-safe.
class FakeStorage : public ShardStorage {
 public:
  absl::StatusOr<v1::ShardFile> Write(const std::string& name,
                                      const ShardSnapshot& snapshot) override {
    MutexLock lock(&mu_);
    written_.push_back(name);
    for (const SliceSnapshot& slice : snapshot.slices) {
      if (slice.rows != nullptr) num_rows_ += slice.rows->keys.size();
    }
    if (snapshot.shard == ShardId(13)) return absl::ResourceExhaustedError("the disk is full");
    v1::ShardFile file;
    file.set_shard(snapshot.shard.value());
    return file;
  }
  absl::Status Finish(const std::string& name, const std::vector<v1::ShardFile>& files) override {
    MutexLock lock(&mu_);
    finished_.push_back(name);
    finished_files_ = files.size();
    priority_ = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
    return absl::OkStatus();
  }
  absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string&) override {
    return absl::UnimplementedError("not here");
  }
  absl::StatusOr<ShardSnapshot> Read(const std::string&, const v1::ShardFile&) override {
    return absl::UnimplementedError("not here");
  }

  std::vector<std::string> finished() {
    MutexLock lock(&mu_);
    return finished_;
  }
  size_t finished_files() {
    MutexLock lock(&mu_);
    return finished_files_;
  }
  size_t num_rows() {
    MutexLock lock(&mu_);
    return num_rows_;
  }
  // Of the thread that writes; 19 is the lowest.
  int priority() {
    MutexLock lock(&mu_);
    return priority_;
  }

 private:
  Mutex mu_;
  std::vector<std::string> written_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> finished_ ABSL_GUARDED_BY(mu_);
  size_t finished_files_ ABSL_GUARDED_BY(mu_) = 0;
  size_t num_rows_ ABSL_GUARDED_BY(mu_) = 0;
  int priority_ ABSL_GUARDED_BY(mu_) = 0;
};

ShardSnapshot Snapshot(uint32_t shard, Step min_step = Step(5)) {
  ShardSnapshot snapshot;
  snapshot.shard = ShardId(shard);
  SliceSnapshot& slice = snapshot.slices.emplace_back();
  slice.min_step = min_step;
  slice.workers = {{WorkerId(0), min_step + 1, true}, {WorkerId(1), Step(2), false}};
  return snapshot;
}

class CheckpointWriterTest : public testing::Test {
 protected:
  CheckpointWriterTest() : writer_(MakeOptions()) {}

  void AwaitEnd() {
    MutexLock lock(&mu_);
    while (ends_ == 0) clock_.WaitUntil(mu_, changed_, absl::InfiniteFuture());
    --ends_;
  }

  RealClock clock_;
  FakeStorage storage_;
  Mutex mu_;
  CondVar changed_;
  int ends_ ABSL_GUARDED_BY(mu_) = 0;
  CheckpointWriter writer_;

 private:
  CheckpointWriter::Options MakeOptions() {
    CheckpointWriter::Options options;
    options.clock = &clock_;
    options.storage = &storage_;
    options.on_end = [this] {
      MutexLock lock(&mu_);
      ++ends_;
      changed_.NotifyAll();
    };
    return options;
  }
};

TEST_F(CheckpointWriterTest, APartEndsWhenAllItsShardsAreOnTheDisk) {
  writer_.Begin(7, "checkpoint-000007", /*shards=*/2);
  writer_.Add(7, Snapshot(3));
  EXPECT_FALSE(writer_.part().has_ended());
  writer_.Add(7, Snapshot(4, Step(9)));
  AwaitEnd();
  const v1::CheckpointPart part = writer_.part();
  EXPECT_TRUE(part.has_ended());
  EXPECT_EQ(part.error(), "");
  EXPECT_EQ(part.files_size(), 2);
  EXPECT_EQ(part.end_step(), 10);
  ASSERT_EQ(part.workers_size(), 2);
  EXPECT_EQ(part.workers(0).least(), 6);
  EXPECT_EQ(part.workers(0).most(), 10);
  EXPECT_TRUE(part.workers(0).is_live());
  EXPECT_FALSE(part.workers(1).is_live());
  EXPECT_EQ(part.workers(1).least(), 2);
  EXPECT_EQ(part.workers(1).most(), 9) << "a lost worker's successor begins at min_step";
  EXPECT_EQ(storage_.finished(), std::vector<std::string>{"checkpoint-000007"});
  EXPECT_EQ(storage_.finished_files(), 2u);
}

TEST_F(CheckpointWriterTest, ThreadsThatTrainGoFirst) {
  writer_.Begin(1, "checkpoint-000001", /*shards=*/0);
  AwaitEnd();
  EXPECT_EQ(storage_.priority(), 19);
}

TEST_F(CheckpointWriterTest, AServerWithoutShardsEndsAtOnce) {
  writer_.Begin(1, "checkpoint-000001", /*shards=*/0);
  AwaitEnd();
  EXPECT_TRUE(writer_.part().has_ended());
}

TEST_F(CheckpointWriterTest, AFailedWriteEndsThePartAndTheNextOneSucceeds) {
  writer_.Begin(1, "checkpoint-000001", /*shards=*/2);
  writer_.Add(1, Snapshot(13));
  AwaitEnd();
  EXPECT_EQ(writer_.part().error(), "the disk is full");
  EXPECT_TRUE(storage_.finished().empty());
  writer_.Add(1, Snapshot(2));  // comes late
  writer_.Begin(2, "checkpoint-000002", /*shards=*/1);
  writer_.Add(1, Snapshot(3));  // of the first part
  EXPECT_FALSE(writer_.part().has_ended());
  writer_.Add(2, Snapshot(2));
  AwaitEnd();
  EXPECT_EQ(writer_.part().number(), 2u);
  EXPECT_EQ(writer_.part().error(), "");
  EXPECT_EQ(writer_.part().files_size(), 1);
}

TEST_F(CheckpointWriterTest, APartFailsWithoutTheOwnStateOfAWorkerThatWasLostAfterTheCut) {
  writer_.Begin(7, "checkpoint-000007", /*shards=*/2);
  writer_.Add(7, Snapshot(3));
  ShardSnapshot without = Snapshot(4);
  without.slices[0].without_own = {WorkerId(1)};
  writer_.Add(7, without);
  AwaitEnd();
  EXPECT_EQ(writer_.part().error(),
            "worker 1 was lost before its own state for the checkpoint came");
  writer_.Begin(8, "checkpoint-000008", /*shards=*/1);
  writer_.Add(7, without);
  writer_.Add(8, Snapshot(3));
  AwaitEnd();
  EXPECT_EQ(writer_.part().error(), "") << "the next one is of its own";
}

// Of a table with a row.
ShardSnapshot CutOf(const RowTable& table, bool is_there) {
  ShardSnapshot snapshot = Snapshot(3);
  SparseRowsSnapshot head;
  head.dim = table.floats_per_row();
  snapshot.slices[0].rows_cut = std::make_shared<RowsCut>(&table, head);
  snapshot.with_lock = [is_there](absl::FunctionRef<void()> use) {
    if (is_there) use();
    return is_there;
  };
  return snapshot;
}

TEST_F(CheckpointWriterTest, RowsAreCopiedBeforeTheirShardIsWritten) {
  RowTable table(/*floats_per_row=*/2);
  table.Insert({7}, [](uint64_t, float* row) { row[0] = row[1] = 0; });
  writer_.Begin(1, "checkpoint-000001", /*shards=*/1);
  writer_.Add(1, CutOf(table, /*is_there=*/true));
  AwaitEnd();
  EXPECT_EQ(writer_.part().error(), "");
  EXPECT_EQ(storage_.num_rows(), 1u);
  writer_.Begin(2, "checkpoint-000002", /*shards=*/1);
  writer_.Add(2, CutOf(table, /*is_there=*/false));
  AwaitEnd();
  EXPECT_NE(writer_.part().error().find("the rows of the cut were not copied"), std::string::npos);
  EXPECT_EQ(storage_.num_rows(), 1u);
}

TEST_F(CheckpointWriterTest, ACutThatIsNotWrittenIsReleasedByStopAndByTheNextPart) {
  RowTable table(/*floats_per_row=*/2);
  Mutex held;
  std::vector<std::weak_ptr<RowsCut>> cuts;
  const auto add = [&](uint64_t number) {
    ShardSnapshot cut = CutOf(table, /*is_there=*/true);
    cuts.push_back(cut.slices[0].rows_cut);
    cut.with_lock = [&held](absl::FunctionRef<void()> use) {
      MutexLock lock(&held);
      use();
      return true;
    };
    writer_.Add(number, std::move(cut));
  };
  {
    MutexLock lock(&held);  // The writer waits in the one that was added first or second.
    for (const uint64_t number : {1, 2}) {
      writer_.Begin(number, "checkpoint", /*shards=*/4);
      for (int i = 0; i < 3; ++i) add(number);
    }
    int left = 0;
    for (int i = 0; i < 3; ++i) left += cuts[i].expired() ? 0 : 1;
    EXPECT_LE(left, 1) << "of the part that was given up";
  }
  writer_.Stop();
  for (const auto& cut : cuts) EXPECT_TRUE(cut.expired());
}

TEST_F(CheckpointWriterTest, NothingIsWrittenAfterStop) {
  writer_.Stop();
  writer_.Begin(1, "checkpoint-000001", /*shards=*/1);
  writer_.Add(1, Snapshot(1));
  EXPECT_FALSE(writer_.part().has_ended());
}

}  // namespace
}  // namespace capstan
