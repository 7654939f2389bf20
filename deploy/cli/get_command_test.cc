#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/cli/commands.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// A running job's rows are tested with programs, in tests/python.
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

}  // namespace
}  // namespace capstan
