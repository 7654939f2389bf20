#include "server/checkpoint/manifest.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kBody[] = R"(format_version: 1
step: 150
steps_total: 400
end_step: 150
job {
  name: "digits"
  cluster {
    shard_count: 3
  }
  model {
    type: LOGISTIC_REGRESSION
  }
  scheduler {
    slice_bytes: 1024
  }
}
tables {
  name: "linear.weight"
  shape: [64, 10]
}
tables {
  name: "linear.bias"
  shape: [10]
}
consistency {
  consistency {
    mode: BSP
  }
}
workers {
  first_step: 150
  progress {
    steps_done: 150
    loss: 0.25
    replies_of_staleness: [149, 0, 1]
  }
}
workers {
  first_step: 150
}
workers_lost: 1
training_seconds: 12.5
files { bytes: 4096 xxh3: 0x00000000000000ff }
files { shard: 1 bytes: 4097 xxh3: 0xfedcba9876543210 }
files { shard: 2 bytes: 4098 xxh3: 0x0000000000000001 }
)";

v1::CheckpointManifest Example() {
  v1::CheckpointManifest manifest = ExampleManifest(150);
  v1::Progress* const progress = manifest.mutable_workers(0)->mutable_progress();
  progress->set_steps_done(150);
  progress->set_loss(0.25);
  for (const uint64_t replies : {149, 0, 1}) progress->add_replies_of_staleness(replies);
  manifest.set_workers_lost(1);
  manifest.set_training_seconds(12.5);
  for (const uint64_t xxh3 : {uint64_t{0xff}, uint64_t{0xfedcba9876543210}, uint64_t{1}}) {
    v1::ShardFile* const file = manifest.add_files();
    file->set_shard(manifest.files_size() - 1);
    file->set_bytes(4096 + file->shard());
    file->set_xxh3(xxh3);
  }
  return manifest;
}

// With a right checksum.
std::string Signed(const std::string& body) {
  return absl::StrCat(body, absl::StrFormat("# XXH3-64 of the lines above: %016x\n",
                                            XXH3_64bits(body.data(), body.size())));
}

absl::Status ErrorOf(absl::string_view text) { return DecodeManifest(text, "d/manifest").status(); }

// Other versions of Capstan read this text, and so do people.
TEST(ManifestTest, TextIsGolden) {
  const std::string text = EncodeManifest(Example());
  EXPECT_EQ(text, Signed(kBody));
  EXPECT_THAT(text, ::testing::EndsWith("above: 4887c972fab22e7a\n"));
}

TEST(ManifestTest, DecodesWhatItEncodes) {
  v1::CheckpointManifest manifest = Example();
  manifest.mutable_job()->mutable_data()->set_path("\"\n# XXH3-64 of the lines above: \x80\\");
  *manifest.add_replaced_workers() = manifest.workers(0).progress();
  manifest.mutable_tuning()->mutable_chosen()->set_step_seconds(0.1);
  const auto decoded = DecodeManifest(EncodeManifest(manifest), "");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  manifest.set_format_version(1);
  EXPECT_EQ(decoded->SerializeAsString(), manifest.SerializeAsString());
}

TEST(ManifestTest, ATruncatedOrChangedTextIsDamaged) {
  const std::string whole = Signed(kBody);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(ErrorOf(whole.substr(0, size)))) << size;
    std::string changed = whole;
    changed[size] = static_cast<char>(changed[size] ^ 1);
    EXPECT_TRUE(absl::IsDataLoss(ErrorOf(changed))) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(ErrorOf(whole + "\n")));
  EXPECT_THAT(std::string(ErrorOf(kBody).message()),
              AllOf(StartsWith("d/manifest: expected a manifest that ends in a line with the "
                               "checksum of the others, got none; "),
                    HasSubstr("use another checkpoint")));
}

TEST(ManifestTest, AForeignTextAndANewerFormatAreRefused) {
  EXPECT_EQ(ErrorOf(Signed("{\"format\": 1}\n")).message(),
            "d/manifest: expected the manifest of a checkpoint, got another text");
  EXPECT_EQ(ErrorOf(Signed("format_version: 2\nwhatever { comes ]\n")).message(),
            "d/manifest: expected format 1, got format 2; use the version of Capstan that wrote "
            "the checkpoint");
  const absl::Status unknown = ErrorOf(Signed(absl::StrCat(kBody, "compression: LZ4\n")));
  EXPECT_TRUE(absl::IsInvalidArgument(unknown));
  EXPECT_THAT(std::string(unknown.message()), AllOf(HasSubstr("something else at 46:12: "),
                                                    HasSubstr("no field named \"compression\"")));
}

TEST(ManifestTest, FieldsThatContradictEachOtherAreRefused) {
  const struct {
    const char* from;
    const char* to;
    const char* error;
  } cases[] = {
      {"shard_count: 3", "shard_count: 1", "its job: --shard_count: expected num_servers (2) to"},
      {"shard_count: 3", "shard_count: 4", "expected the file of shard 3, got none"},
      {"shard_count: 3", "num_workers: 3 shard_count: 3", "expected 3 workers, as the job has"},
      {"shard: 2", "shard: 1", "expected the file of shard 2, got that of 1"},
      {"\nstep: 150", "\nstep: 151", "expected 0 <= step <= end_step <= 2^62"},
      {"\nstep: 150", "\nstep: -1", "expected 0 <= step <= end_step <= 2^62"},
      {"end_step: 150", "end_step: 9223372036854775807", "expected 0 <= step <= end_step <= 2^62"},
      {"steps_total: 400", "steps_total: -1", "expected 0 <= step <= end_step <= 2^62"},
      {"first_step: 150", "first_step: -1", "expected first steps of workers from 0 to 2^62"},
      {"seconds: 12.5", "seconds: -1", "expected 0 or more training_seconds, got -1"},
      {"seconds: 12.5", "seconds: nan", "expected 0 or more training_seconds, got nan"},
      {"linear.bias", "linear.weight", "two tables are called linear.weight"},
      {"[64, 10]", "[64, 0]", "table linear.weight has shape [64, 0]; sizes must be positive"},
      {"[64, 10]", "[4294967296, 4294967296]", "which is more than 2^64 bytes"},
      {"  scheduler {", "  codec { table_codec { table: \"fc1\" codec: \"int8\" } }\n  scheduler {",
       "--table_codec: expected tables of the model (linear.weight, linear.bias), got \"fc1\""},
      {"shape: [10]", "shape: [10]\n  optimizer { type: ADAM beta1: 2 }",
       "table linear.bias: optimizer.beta1: expected a number that is at least 0"},
      {"consistency {\n  consistency", "consistency {\n  first_step: 1\n  consistency",
       "expected a consistency from step 0 on"},
      {"consistency {\n  consistency", "consistency {\n}\nconsistency {\n  consistency",
       "and each change after the one before, got one from step 0 on"},
      {"mode: BSP", "mode: SSP staleness: -1", "--staleness: expected 0 or more"},
      {"mode: BSP", "mode: SSP table_staleness { table: \"fc1\" }", "fc1"},
  };
  for (const auto& test : cases) {
    const std::string body = absl::StrReplaceAll(kBody, {{test.from, test.to}});
    ASSERT_NE(body, kBody) << test.from;
    const absl::Status status = ErrorOf(Signed(body));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << test.to << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith("d/manifest: "), HasSubstr(test.error)));
  }
  v1::CheckpointManifest no_tables = Example(), no_consistency = Example();
  no_tables.clear_tables();
  no_consistency.clear_consistency();
  EXPECT_EQ(ErrorOf(EncodeManifest(no_tables)).message(),
            "d/manifest: expected the job's tables, got none");
  EXPECT_EQ(ErrorOf(EncodeManifest(no_consistency)).message(),
            "d/manifest: expected a consistency, got none");
}

TEST(ManifestTest, TheFileOfAFolderIsRead) {
  const std::string folder = NewFolder(), path = folder + "/manifest";
  std::ofstream(path) << Signed(kBody);
  const auto manifest = ReadManifest(folder);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->step(), 150);
}

TEST(ManifestTest, AFolderWithoutTheFileIsNotComplete) {
  const std::string folder = NewFolder();
  const absl::Status without = ReadManifest(folder).status();
  EXPECT_TRUE(absl::IsNotFound(without)) << without;
  EXPECT_THAT(std::string(without.message()),
              AllOf(StartsWith(folder + "/manifest: expected the folder of a complete "),
                    HasSubstr("got one without this file; capstan checkpoint --list=DIR")));
  const absl::Status none = ReadManifest(folder + "/none").status();
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("got no folder"));
}

TEST(ManifestTest, APipeAndAHugeFileAreRefusedUnread) {
  const std::string pipe = NewFolder(), huge = NewFolder();
  ASSERT_EQ(mkfifo((pipe + "/manifest").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadManifest(pipe).status()));
  std::ofstream(huge + "/manifest") << kBody;
  ASSERT_EQ(truncate((huge + "/manifest").c_str(), off_t{1} << 40), 0);
  EXPECT_THAT(std::string(ReadManifest(huge).status().message()),
              HasSubstr("expected a manifest of at most 67108864 bytes, got 1099511627776"));
}

}  // namespace
}  // namespace capstan
