#include "server/checkpoint/shard_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <xxhash.h>

#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"
#include "server/consistency/consistency_schedule.h"
#include "server/shard/shard.h"
#include "server/slice/dense_slice.h"
#include "server/slice/slice_state.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSize = 5000;
constexpr int kWorkers = 3;
const std::string kTables[] = {"fc1.weight", "fc1.bias"};

// A shard of two slices under Adam: steps 0 and 1 under SSP(8), steps 2 and 3 under BSP, then
// async. So later pushes are kept until BSP's steps are complete.
class ShardFileTest : public testing::Test {
 protected:
  ShardFileTest() {
    v1::OptimizerSpec spec;
    spec.set_type(v1::OptimizerSpec::ADAM);
    optimizer_ = MakeOptimizer(spec).value();
    std::string folder = testing::TempDir() + "/shard-XXXXXX";
    path_ = absl::StrCat(mkdtemp(folder.data()), "/shard.safetensors");
  }

  // With `from`, the shard goes on where that one was.
  std::unique_ptr<Shard> MakeShard(ShardSnapshot* from = nullptr) {
    const ConsistencyPeriod periods[] = {{Step(0), ConsistencyMode::kSsp, 8},
                                         {Step(2), ConsistencyMode::kBsp},
                                         {Step(4), ConsistencyMode::kAsync}};
    auto shard = std::make_unique<Shard>(Epoch());
    for (uint32_t i = 0; i < 2; ++i) {
      DenseSlice::Options options;
      options.slice.name = absl::StrCat("slice ", i);
      options.memory = from == nullptr ? SliceState::Allocate(kSize, optimizer_.get()).value()
                                       : SliceState::Take(from->slices[i]).value();
      options.optimizer = optimizer_.get();
      options.slice.schedule = from == nullptr
                                   ? MakeConsistencySchedule(periods).value()
                                   : MakeConsistencySchedule(from->slices[i].schedule).value();
      options.slice.non_finite_pushes = &non_finite_pushes_;
      EXPECT_TRUE(shard
                      ->AddSlice({TableId(i), SliceIndex(7)},
                                 std::make_unique<DenseSlice>(std::move(options)),
                                 from == nullptr ? nullptr : &from->slices[i])
                      .ok());
    }
    if (from != nullptr) shard->RestoreWorkers(from->workers);
    std::vector<ShardWorker> workers;
    for (uint32_t id = 0; id < kWorkers; ++id) {
      workers.push_back({WorkerId(id), Incarnation(from == nullptr ? id : 100 + id)});
    }
    shard->SetLiveWorkers(workers);
    return shard;
  }
  // The push of the worker and step, the same for every call. Workers have learning rates of their
  // own, and worker 0 has no gradient in step 3.
  absl::Status Push(Shard& shard, bool is_restored, uint32_t slice, uint32_t worker, int64_t step) {
    Random random(1000 * slice + 100 * worker + static_cast<uint64_t>(step));
    const auto gradient = std::make_shared<std::vector<float>>(kSize);
    for (float& element : *gradient) element = random.Normal();
    ExchangeRequest request;
    request.sender = {/*job=*/0, WorkerId(worker),
                      Incarnation(is_restored ? 100 + worker : worker)};
    request.slice = {TableId(slice), SliceIndex(7)};
    StepPush push = {Step(step), std::nullopt, std::nullopt, {0.001 * (1 + worker), std::nullopt}};
    if (worker != 0 || step != 3) {
      push.gradient = {Payload(absl::MakeConstSpan(*gradient), gradient)};
    }
    request.purpose = DenseStep{std::move(push)};
    // That of a kept push comes later.
    const auto status = std::make_shared<absl::Status>();
    shard.Exchange(std::move(request), [status](ExchangeReply reply) { *status = reply.status; });
    return *status;
  }
  uint64_t Write(const ShardSnapshot& snapshot) {
    const OpenFile file = OpenFile::Open(path_, O_RDWR | O_CREAT | O_TRUNC).value();
    return WriteShardFile(snapshot, kTables, file).value();
  }
  absl::StatusOr<ShardSnapshot> Read() {
    absl::StatusOr<HashedShard> read =
        ReadShardFile(OpenFile::Open(path_, O_RDONLY).value(), kTables);
    if (!read.ok()) return read.status();
    const std::string bytes = Contents();
    EXPECT_EQ(read->xxh3, XXH3_64bits(bytes.data(), bytes.size()));
    return std::move(read->snapshot);
  }
  std::string Contents() {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  static std::vector<std::vector<float>> FloatsOf(Shard& shard) {
    std::vector<std::vector<float>> all;
    for (const SliceSnapshot& slice : shard.Snapshot().slices) {
      std::vector<Payload> arrays = slice.optimizer_state;
      arrays.push_back(slice.values);
      for (const Payload& array : arrays) array.CopyTo(absl::MakeSpan(all.emplace_back(kSize)));
    }
    return all;
  }

  std::unique_ptr<Optimizer> optimizer_;
  WorkerCounter non_finite_pushes_;
  std::string path_;
};

// Worker 0 is ahead: the pushes of its steps 2 and 3 are kept.
TEST_F(ShardFileTest, AShardGoesOnInAnotherProcessWithTheSameBits) {
  const auto original = MakeShard();
  for (uint32_t slice : {0, 1}) {
    for (int64_t step : {0, 1, 2, 3}) {
      ASSERT_TRUE(Push(*original, false, slice, 0, step).ok()) << step;
      if (step < 2) {
        for (uint32_t worker : {1, 2}) {
          ASSERT_TRUE(Push(*original, false, slice, worker, step).ok());
        }
      }
    }
  }
  Write(original->Snapshot());
  auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->workers.size(), size_t{kWorkers});
  ASSERT_EQ(read->slices[0].kept.size(), 2u);
  EXPECT_FALSE(read->slices[0].kept[0].is_empty);
  EXPECT_TRUE(read->slices[0].kept[1].is_empty);
  const auto restored = MakeShard(&*read);
  for (Shard* shard : {original.get(), restored.get()}) {
    const bool is_restored = shard == restored.get();
    for (uint32_t slice : {0, 1}) {
      EXPECT_TRUE(Push(*shard, is_restored, slice, 1, 1).ok()) << "it was applied before";
      EXPECT_FALSE(Push(*shard, is_restored, slice, 1, 3).ok()) << "step 2 has not come";
      for (int64_t step : {2, 3, 4}) {
        for (uint32_t worker : {1, 2}) {
          EXPECT_TRUE(Push(*shard, is_restored, slice, worker, step).ok());
        }
      }
      EXPECT_TRUE(Push(*shard, is_restored, slice, 0, 4).ok());
    }
  }
  EXPECT_EQ(FloatsOf(*restored), FloatsOf(*original));
  for (const uint32_t slice : {0, 1}) {
    EXPECT_EQ(restored->Snapshot().slices[slice].version,
              original->Snapshot().slices[slice].version);
  }
}

TEST_F(ShardFileTest, OwnStatesOfWorkersAreTensorsBesideTheValues) {
  ShardSnapshot shard = MakeShard()->Snapshot();
  SliceSnapshot& slice = shard.slices[1];
  const auto floats = std::make_shared<std::vector<float>>(2 * kSize);
  for (size_t i = 0; i < floats->size(); ++i) (*floats)[i] = static_cast<float>(i);
  slice.own_arrays = 2;
  slice.own.push_back({WorkerId(2), Payload(absl::MakeConstSpan(*floats), floats)});
  Write(shard);
  EXPECT_THAT(Contents(), HasSubstr("\"fc1.bias/7/own.2\":{\"dtype\":\"F32\",\"shape\":[2,5000]"));
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->slices[0].own.empty());
  ASSERT_EQ(read->slices[1].own.size(), 1u);
  EXPECT_EQ(read->slices[1].own[0].worker, WorkerId(2));
  std::vector<float> back(2 * kSize);
  read->slices[1].own[0].arrays.CopyTo(absl::MakeSpan(back));
  EXPECT_EQ(back, *floats);

  slice.own_arrays = 4;
  Write(shard);
  EXPECT_THAT(std::string(Read().status().message()),
              HasSubstr("80000 bytes in fc1.bias/7/own.2, got 40000"));
}

TEST_F(ShardFileTest, StatesOfProgramsAreInTheBlocksAndNoTensors) {
  ShardSnapshot shard = MakeShard()->Snapshot();
  Write(shard);
  const std::string without = Contents();
  const auto text = std::make_shared<const std::string>("the state of a program");
  Payload state{text};
  state.Append({reinterpret_cast<const uint8_t*>(text->data()), text->size()});
  shard.slices[0].programs = {{WorkerId(0), state}, {WorkerId(2), Payload()}};
  Write(shard);
  EXPECT_THAT(Contents(), HasSubstr(*text));
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->slices[0].programs.size(), 2u);
  EXPECT_EQ(read->slices[0].programs[0].worker, WorkerId(0));
  std::string back(text->size(), '\0');
  ASSERT_EQ(read->slices[0].programs[0].arrays.size_bytes(), back.size());
  read->slices[0].programs[0].arrays.CopyTo({reinterpret_cast<uint8_t*>(back.data()), back.size()});
  EXPECT_EQ(back, *text);
  EXPECT_EQ(read->slices[0].programs[1].worker, WorkerId(2));
  EXPECT_TRUE(read->slices[0].programs[1].arrays.empty());
  EXPECT_TRUE(read->slices[1].programs.empty());

  shard.slices[0].programs.clear();
  Write(shard);
  EXPECT_TRUE(Contents() == without) << "the file of a job without such states is as before";
}

TEST_F(ShardFileTest, NobodyWaitsForAWorkerThatDoesNotComeBack) {
  const auto original = MakeShard();
  for (int64_t step : {0, 1, 2}) {
    for (uint32_t worker : {0, 1}) ASSERT_TRUE(Push(*original, false, 0, worker, step).ok());
  }
  ASSERT_TRUE(Push(*original, false, 0, 2, 0).ok());
  Write(original->Snapshot());
  ShardSnapshot read = Read().value();
  const auto restored = MakeShard(&read);
  EXPECT_EQ(restored->Snapshot().slices[0].min_step, Step(1)) << "worker 2 has done one step";
  restored->SetLiveWorkers(
      std::vector<ShardWorker>{{WorkerId(0), Incarnation(100)}, {WorkerId(1), Incarnation(101)}});
  EXPECT_EQ(restored->Snapshot().slices[0].min_step, Step(3));
  EXPECT_TRUE(restored->Snapshot().slices[0].kept.empty()) << "step 2 is applied";
}

TEST_F(ShardFileTest, ASnapshotStaysAsItIsWhileUpdatesGoOn) {
  const auto shard = MakeShard();
  for (uint32_t worker : {0, 1, 2}) ASSERT_TRUE(Push(*shard, false, 0, worker, 0).ok());
  const ShardSnapshot snapshot = shard->Snapshot();
  const uint64_t before = Write(snapshot);
  for (uint32_t worker : {0, 1, 2}) ASSERT_TRUE(Push(*shard, false, 0, worker, 1).ok());
  EXPECT_EQ(Write(snapshot), before);
  EXPECT_NE(Write(shard->Snapshot()), before);
}

TEST_F(ShardFileTest, UpdatesBesideASnapshotHaveTheSameBits) {
  const auto alone = MakeShard();
  const auto beside = MakeShard();
  for (int64_t step : {0, 1, 2}) {
    const ShardSnapshot snapshot = beside->Snapshot();
    for (Shard* shard : {alone.get(), beside.get()}) {
      for (uint32_t worker : {0, 1, 2}) {
        ASSERT_TRUE(Push(*shard, false, 0, worker, step).ok());
      }
    }
  }
  EXPECT_EQ(FloatsOf(*beside), FloatsOf(*alone));
}

TEST_F(ShardFileTest, TheHashIsThatOfTheFileAndATensorIsReadByItsName) {
  const auto shard = MakeShard();
  const uint64_t hash = Write(shard->Snapshot());
  const std::string bytes = Contents();
  EXPECT_EQ(hash, XXH3_64bits(bytes.data(), bytes.size()));
  EXPECT_THAT(bytes, HasSubstr("\"fc1.weight/7/values\":{\"dtype\":\"F32\",\"shape\":[5000]"));
  EXPECT_THAT(bytes, HasSubstr("\"fc1.bias/7/optimizer.1\":{\"dtype\":\"F32\",\"shape\":[5000]"));
}

// A shard with a slice of a sparse table that has all that one can have.
ShardSnapshot ShardOfRows() {
  SparseRowsSnapshot rows;
  rows.dim = rows.state_floats = 1;
  rows.last_step = Step(8);
  rows.keys = {5, uint64_t{1} << 63};
  rows.values = {1.5f, -2};
  rows.state = {0.25f, 0.5f};
  rows.last_touch = {7, 8};
  rows.sketch = {1, 2, 3};
  ShardSnapshot shard;
  shard.shard = ShardId(2);
  SliceSnapshot& slice = shard.slices.emplace_back();
  slice.key = {TableId(1), SliceIndex(2)};
  slice.schedule = {{Step(0), ConsistencyMode::kBsp}};
  slice.rows = std::make_shared<const SparseRowsSnapshot>(rows);
  SliceSnapshot::KeptPush& push = slice.kept.emplace_back();
  push.step = Step(9);
  push.worker = WorkerId(1);
  push.keys = std::make_shared<const std::vector<uint64_t>>(1, 5);
  const auto gradient = std::make_shared<const std::vector<float>>(1, 0.125f);
  push.gradient = Payload(*gradient, gradient);
  return shard;
}

// The layout is a contract. Tensors of larger numbers come first, so each one is aligned.
TEST_F(ShardFileTest, TheTensorsOfRowsAreGolden) {
  Write(ShardOfRows());
  EXPECT_THAT(
      Contents(),
      HasSubstr(
          R"("fc1.bias/2/keys":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
          R"("fc1.bias/2/kept.9.1.keys":{"dtype":"I64","shape":[1],"data_offsets":[16,24]},)"
          R"("fc1.bias/2/values":{"dtype":"F32","shape":[2,1],"data_offsets":[24,32]},)"
          R"("fc1.bias/2/state":{"dtype":"F32","shape":[2,1],"data_offsets":[32,40]},)"
          R"("fc1.bias/2/last_touch":{"dtype":"U32","shape":[2],"data_offsets":[40,48]},)"
          R"("fc1.bias/2/kept.9.1":{"dtype":"F32","shape":[1,1],"data_offsets":[48,52]},)"
          R"("fc1.bias/2/sketch":{"dtype":"U8","shape":[3],"data_offsets":[52,55]},"shard":)"));
}

TEST_F(ShardFileTest, RowsAreReadAsTheyWereWritten) {
  const ShardSnapshot shard = ShardOfRows();
  Write(shard);
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->slices.size(), 1u);
  const SparseRowsSnapshot& rows = *read->slices[0].rows;
  const SparseRowsSnapshot& written = *shard.slices[0].rows;
  EXPECT_EQ(rows.last_step, written.last_step);
  EXPECT_EQ(rows.keys, written.keys);
  EXPECT_EQ(rows.values, written.values);
  EXPECT_EQ(rows.state, written.state);
  EXPECT_EQ(rows.last_touch, written.last_touch);
  EXPECT_EQ(rows.sketch, written.sketch);
  EXPECT_EQ(*read->slices[0].kept.at(0).keys, (std::vector<uint64_t>{5}));
}

TEST_F(ShardFileTest, RowsThatContradictThemselvesAreRefused) {
  const auto error_of = [this](const SparseRowsSnapshot& rows) {
    ShardSnapshot shard = ShardOfRows();
    shard.slices[0].rows = std::make_shared<const SparseRowsSnapshot>(rows);
    Write(shard);
    const absl::Status status = Read().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  SparseRowsSnapshot bad = *ShardOfRows().slices[0].rows;
  std::swap(bad.keys[0], bad.keys[1]);
  EXPECT_THAT(error_of(bad), HasSubstr("expected a shard with ascending keys"));
  bad = *ShardOfRows().slices[0].rows;
  bad.values.pop_back();
  EXPECT_THAT(error_of(bad), HasSubstr("expected a shard with 2 numbers in fc1.bias/2/values"));
  bad = *ShardOfRows().slices[0].rows;
  bad.last_touch.pop_back();
  EXPECT_THAT(error_of(bad), HasSubstr("expected a shard with 2 numbers in fc1.bias/2/last_touch"));
}

TEST_F(ShardFileTest, DamagedAndForeignFilesAreRefused) {
  Write(MakeShard()->Snapshot());
  const std::string whole = Contents();
  const auto status_of = [this](const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    const absl::Status status = Read().status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    return status;
  };
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, whole.size() - 1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status_of(whole.substr(0, size)))) << size;
  }
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_TRUE(absl::IsDataLoss(status_of(damaged)));
  std::string renamed = whole;
  renamed[renamed.find("fc1.bias/7/values")] = 'g';
  EXPECT_THAT(std::string(status_of(renamed).message()),
              HasSubstr("a tensor fc1.bias/7/values of F32, got none"));
  ShardSnapshot foreign = MakeShard()->Snapshot();
  foreign.slices.pop_back();
  foreign.slices[0].key.table = TableId(1);
  Write(foreign);
  EXPECT_FALSE(
      ReadShardFile(OpenFile::Open(path_, O_RDONLY).value(), absl::MakeSpan(kTables, 1)).ok());
}

// Otherwise the checkpoint would be complete, and could not be read.
TEST_F(ShardFileTest, MoreNamesThanAReaderTakesAreNotWritten) {
  ShardSnapshot shard = MakeShard()->Snapshot();
  shard.slices.resize(1);
  shard.slices[0].optimizer_state.assign(100'000, shard.slices[0].values.Subrange(0, 4));
  const absl::Status status =
      WriteShardFile(shard, kTables, OpenFile::Open(path_, O_RDWR | O_CREAT).value()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("give the job more shards"));
}

}  // namespace
}  // namespace capstan
