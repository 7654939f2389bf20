#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"
#include "deploy/cli/commands.h"
#include "proto/coordinator_service.grpc.pb.h"
#include "proto/reader_service.grpc.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A running job's rows are also tested with programs, in tests/python.
class GetCommandTest : public testing::Test {
 protected:
  GetCommandTest() {
    v1::CheckpointManifest manifest = ExampleManifest(150);
    std::vector<ShardSnapshot> shards = {ExampleShard(0, 150), ExampleShard(1, 150),
                                         ExampleShard(2, 150)};
    AddExampleRows(manifest, shards);
    checkpoint_ = WriteCheckpoint(dir_, manifest, shards);
  }
  absl::Status Get(const std::string& checkpoint, const std::string& table,
                   const std::string& keys) {
    GetOptions options;
    options.checkpoint = checkpoint;
    options.table = table;
    options.keys = ReadRowKeys(keys).value();
    out_.str("");
    return GetCommand(options, out_);
  }

  const std::string dir_ = NewFolder();
  std::string checkpoint_;
  std::ostringstream out_;
};

TEST_F(GetCommandTest, ALineForEachKeyHasItsRow) {
  const std::vector<uint64_t> keys = ExampleKeys();
  const std::string both =
      absl::StrCat(keys[3], ",-1,", keys[14], ",", static_cast<int64_t>(keys[14]), ",", keys[3]);
  for (const std::string& path : {checkpoint_, dir_}) {
    const absl::Status status = Get(path, "items", both);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out_.str(), absl::StrCat("key ", keys[3], ": 3 3.5\nkey -1: no row\nkey ", keys[14],
                                       ": 14 14.5\nkey ", static_cast<int64_t>(keys[14]),
                                       ": 14 14.5\nkey ", keys[3], ": 3 3.5\n"));
  }
}

TEST_F(GetCommandTest, OtherTablesAndDamagedFilesAreRefused) {
  for (const char* const table : {"linear.weight", "itms"}) {
    EXPECT_EQ(Get(checkpoint_, table, "1").message(),
              absl::StrCat("--table: expected a sparse table of the job, one of items, got \"",
                           table, "\""));
  }
  EXPECT_THAT(std::string(Get(dir_ + "/none", "items", "1").message()), HasSubstr("none"));
  for (int shard = 0; shard < 3; ++shard) {
    FlipLastByte(absl::StrCat(checkpoint_, "/shard-0000", shard, ".safetensors"));
  }
  EXPECT_TRUE(absl::IsDataLoss(Get(checkpoint_, "items", "1")));
}

TEST(ReadRowKeysTest, KeysAreWholeNumbersOf64Bits) {
  const auto keys = ReadRowKeys("0,18446744073709551615,-9223372036854775808").value();
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[1].key, UINT64_MAX);
  EXPECT_EQ(keys[2].key, uint64_t{1} << 63);
  EXPECT_EQ(keys[2].text, "-9223372036854775808");
  for (const char* const bad :
       {"", "1,,2", "x", "1.5", "18446744073709551616", "-9223372036854775809"}) {
    EXPECT_THAT(std::string(ReadRowKeys(bad).status().message()), HasSubstr("--row_keys: expected"))
        << bad;
  }
}

// Does not wait: its time goes on.
class ImpatientClock : public Clock {
 public:
  absl::Time Now() const override { return clock_.Now() + waited_; }
  TimerId RunAt(absl::Time when, absl::AnyInvocable<void()> callback) override {
    return clock_.RunAt(when - waited_, std::move(callback));
  }
  bool Cancel(TimerId timer) override { return clock_.Cancel(timer); }
  bool WaitUntil(Mutex&, CondVar&, absl::Time deadline) override {
    waited_ += deadline - Now();
    return false;
  }

 private:
  RealClock clock_;
  absl::Duration waited_;
};

// A coordinator and a server in one.
class FakeProcess : public v1::CoordinatorService::Service, public v1::ReaderService::Service {
 public:
  FakeProcess() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::CoordinatorService::Service*>(this));
    builder.RegisterService(static_cast<v1::ReaderService::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusReply* reply) override {
    *reply->mutable_view() = views[std::min(num_asked, views.size() - 1)];
    ++num_asked;
    return grpc::Status::OK;
  }
  // Each row is its key.
  grpc::Status ReadRows(grpc::ServerContext*, const v1::ReadRowsRequest* request,
                        v1::ReadRowsReply* reply) override {
    ++num_reads;
    for (const uint64_t key : request->keys()) {
      reply->add_rows()->add_values(static_cast<float>(key));
    }
    return status;
  }

  std::vector<v1::JobView> views;  // in turn; then the last one
  size_t num_asked = 0;
  int num_reads = 0;
  grpc::Status status;  // of each read

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Two servers, each with one shard at first.
class GetFromJobTest : public testing::Test {
 protected:
  v1::JobView View(uint32_t server_of_first_shard, bool is_first_live) const {
    v1::JobView view;
    v1::TableSpec* const table = view.add_tables();
    table->set_name("items");
    table->mutable_sparse();
    view.add_server_of_shard(server_of_first_shard);
    view.add_server_of_shard(1);
    for (uint32_t i = 0; i < 2; ++i) {
      v1::ServerInfo* const info = view.add_servers();
      info->set_server(i);
      info->set_address(servers_[i].address());
      info->set_is_live(i == 1 || is_first_live);
      view.add_copies()->set_server(1 - i);
    }
    return view;
  }
  absl::Status Get() {
    GetOptions options;
    options.coordinator = servers_[1].address();
    options.table = "items";
    options.keys = ReadRowKeys("1,2,3,4,5,6,7,8").value();
    options.clock = &clock_;
    return GetCommand(options, out_);
  }
  void ExpectAllRows() const {
    EXPECT_EQ(out_.str(),
              "key 1: 1\nkey 2: 2\nkey 3: 3\nkey 4: 4\nkey 5: 5\nkey 6: 6\nkey 7: 7\nkey 8: 8\n");
  }

  ImpatientClock clock_;
  FakeProcess servers_[2];
  FakeProcess& coordinator_ = servers_[1];
  std::ostringstream out_;
};

TEST_F(GetFromJobTest, RowsOfADeadServerAreReadFromTheNextOneAndOthersOnce) {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::FAILED_PRECONDITION}) {
    out_.str("");
    servers_[0].status = {code, "not here"};
    servers_[0].num_reads = servers_[1].num_reads = 0;
    coordinator_.num_asked = 0;
    coordinator_.views = {View(0, true), View(0, true), View(0, false), View(1, false)};
    const absl::Status status = Get();
    ASSERT_TRUE(status.ok()) << status;
    ExpectAllRows();
    EXPECT_EQ(coordinator_.num_asked, 4u);
    EXPECT_EQ(servers_[0].num_reads, 2) << "it is not asked once it is known to be dead";
    EXPECT_EQ(servers_[1].num_reads, 2) << "for the keys of each shard";
  }
}

TEST_F(GetFromJobTest, RowsThatNoServerHasAreLookedForUntilATimeIsOver) {
  servers_[0].status = {grpc::StatusCode::UNAVAILABLE, "is shutting down"};
  coordinator_.views = {View(0, true)};
  const absl::Status status = Get();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(servers_[0].address()), HasSubstr("is shutting down"),
                    HasSubstr("for 30s no other server has got its shards")));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(GetFromJobTest, OtherErrorsAndThoseOfJobsWithoutCopiesAreToldAtOnce) {
  coordinator_.views = {View(0, true)};
  servers_[0].status = {grpc::StatusCode::PERMISSION_DENIED, "not you"};
  EXPECT_TRUE(absl::IsPermissionDenied(Get()));
  coordinator_.views[0].clear_copies();
  servers_[0].status = {grpc::StatusCode::UNAVAILABLE, "is shutting down"};
  EXPECT_TRUE(absl::IsUnavailable(Get()));
  EXPECT_EQ(servers_[0].num_reads, 2);
}

}  // namespace
}  // namespace capstan
