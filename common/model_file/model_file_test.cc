#include "common/model_file/model_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

v1::TableSpec Table(const std::string& name, const std::vector<uint64_t>& shape) {
  v1::TableSpec table;
  table.set_name(name);
  table.mutable_shape()->Assign(shape.begin(), shape.end());
  return table;
}

ModelOutput::Tables Tables(const std::vector<v1::TableSpec>& tables = {Table("weight", {2, 3}),
                                                                       Table("bias", {3})}) {
  return {tables.begin(), tables.end()};
}

constexpr uint64_t kToken = 77;

uint64_t HashOf(const std::vector<float>& values) {
  return XXH3_64bits(values.data(), values.size() * sizeof(float));
}

class ModelFileTest : public testing::Test {
 protected:
  ModelFileTest() {
    std::string folder = testing::TempDir() + "/model-XXXXXX";
    path_ = absl::StrCat(mkdtemp(folder.data()), "/m.safetensors");
  }
  static bool Exists(const std::string& path) {
    struct stat status;
    return stat(path.c_str(), &status) == 0;
  }
  // A server's view of the unfinished file.
  std::unique_ptr<ModelTables> OpenPart() {
    return ModelTables::Read(OpenFile::Open(UnfinishedModelPath(path_), O_RDWR).value()).value();
  }
  // Writes a model whose every value is `value`.
  void WriteModel(float value) {
    const auto output = CreateModelFile(path_, kToken).value();
    ASSERT_TRUE(output->Begin(Tables(), {}, {}).ok());
    const auto part = OpenPart();
    ASSERT_TRUE(part->WriteValues("weight", 0, std::vector<float>(6, value)).ok());
    ASSERT_TRUE(part->WriteValues("bias", 0, std::vector<float>(3, value)).ok());
    ASSERT_TRUE(part->Sync().ok());
    ASSERT_TRUE(output->Publish({{"step", "7"}}, HashOf(std::vector<float>(9, value))).ok());
  }

  std::string path_;
};

TEST_F(ModelFileTest, SeveralWritersFillOneFile) {
  {
    const auto output = CreateModelFile(path_, kToken).value();
    ASSERT_TRUE(output->Begin(Tables(), {}, {}).ok());
    const auto part = OpenPart(), other = OpenPart();
    EXPECT_TRUE(part->CheckTables(Tables()).ok());
    EXPECT_TRUE(part->CheckToken(kToken).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(part->CheckToken(kToken + 1)));
    ASSERT_TRUE(part->WriteValues("weight", 4, {5, 6}).ok());
    ASSERT_TRUE(other->WriteValues("bias", 0, {7, 8, 9}).ok());
    ASSERT_TRUE(part->WriteValues("weight", 0, {1, 2, 3, 4}).ok());
    EXPECT_FALSE(Exists(path_));
    const absl::Status published =
        output->Publish({{"step", "7"}}, HashOf({1, 2, 3, 4, 5, 6, 7, 8, 9}));
    ASSERT_TRUE(published.ok()) << published;
  }
  EXPECT_FALSE(Exists(UnfinishedModelPath(path_)));
  const auto model = ModelTables::Open(path_).value();
  EXPECT_THAT(model->header().metadata,
              ElementsAre(Pair("parameters_xxh3",
                               absl::StrFormat("%016x", HashOf({1, 2, 3, 4, 5, 6, 7, 8, 9}))),
                          Pair("step", "7")));
  EXPECT_TRUE(model->CheckTables(Tables()).ok());
  std::vector<float> values(4);
  ASSERT_TRUE(model->ReadValues("weight", 2, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(3, 4, 5, 6));
  values.resize(3);
  ASSERT_TRUE(model->ReadValues("bias", 0, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(7, 8, 9));
}

TEST_F(ModelFileTest, TablesThatAreRowsOfATensorAreOneInTheFile) {
  v1::TableSpec first = Table("weight/shard0of2", {2, 3}),
                second = Table("weight/shard1of2", {1, 3});
  first.set_tensor("weight");
  second.set_tensor("weight");
  v1::TableSpec first_step = Table("step0", {}), second_step = Table("step1", {});
  first_step.set_tensor("step");
  second_step.set_tensor("step");
  const auto tables = Tables({Table("scale", {1}), first, second, Table("bias", {3})});
  const auto state = Tables({first_step, second_step});
  auto all = tables;
  all.MergeFrom(state);
  {
    const auto output = CreateModelFile(path_, kToken).value();
    ASSERT_TRUE(output->Begin(tables, {}, state).ok());
    const auto part = OpenPart();
    const absl::Status checked = part->CheckTables(all);
    ASSERT_TRUE(checked.ok()) << checked;
    ASSERT_TRUE(part->WriteValues("scale", 0, {1}).ok());
    ASSERT_TRUE(part->WriteValues("weight/shard1of2", 0, {8, 9, 10}).ok());
    ASSERT_TRUE(part->WriteValues("weight/shard0of2", 2, {4, 5, 6, 7}).ok());
    ASSERT_TRUE(part->WriteValues("weight/shard0of2", 0, {2, 3}).ok());
    ASSERT_TRUE(part->WriteValues("bias", 0, {11, 12, 13}).ok());
    for (const char* step : {"step0", "step1"}) ASSERT_TRUE(part->WriteValues(step, 0, {7}).ok());
    const absl::Status published = output->Publish({}, std::nullopt);
    ASSERT_TRUE(published.ok()) << published;
  }
  const auto model = ModelTables::Open(path_).value();
  std::vector<std::string> names;
  for (const Safetensors::Tensor& tensor : model->header().tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("scale", "weight", "bias", "step"));
  EXPECT_THAT(model->header().tensors[1].shape, ElementsAre(3, 3));
  const std::vector<float> in_order = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  EXPECT_THAT(model->header().metadata,
              ElementsAre(Pair("parameters_xxh3", absl::StrFormat("%016x", HashOf(in_order)))));
  // Also as whole tensors, or in other parts.
  EXPECT_TRUE(model
                  ->CheckTables(Tables({Table("scale", {1}), Table("weight", {3, 3}),
                                        Table("bias", {3}), Table("step", {})}))
                  .ok());
  std::vector<float> values(9);
  ASSERT_TRUE(model->ReadValues("weight", 0, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_TRUE(model->CheckTables(all).ok());
  values.resize(2);
  ASSERT_TRUE(model->ReadValues("weight/shard1of2", 1, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(9, 10));
  second.set_shape(0, 2);
  const absl::Status other = model->CheckTables(Tables({Table("scale", {1}), first, second}));
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("weight: expected [4, 3] of F32, got [3, 3]"));
}

TEST_F(ModelFileTest, AnExistingFileIsReplacedOnlyByACompleteOne) {
  WriteModel(1);
  {
    const auto output = CreateModelFile(path_, kToken).value();
    ASSERT_TRUE(output->Begin(Tables(), {}, {}).ok());
    const absl::Status status = output->Publish({}, /*parameters_xxh3=*/1);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not all servers have written"));
  }
  EXPECT_FALSE(Exists(UnfinishedModelPath(path_))) << "it is removed";
  std::vector<float> values(3);
  ASSERT_TRUE(ModelTables::Open(path_).value()->ReadValues("bias", 0, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(1, 1, 1));
  WriteModel(2);
  ASSERT_TRUE(ModelTables::Open(path_).value()->ReadValues("bias", 0, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(2, 2, 2));
}

TEST_F(ModelFileTest, AnUnfinishedFileIsNoModel) {
  const auto output = CreateModelFile(path_, kToken).value();
  ASSERT_TRUE(output->Begin(Tables(), {}, {}).ok());
  const absl::Status status = ModelTables::Open(UnfinishedModelPath(path_)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a job that has not ended"));
}

TEST_F(ModelFileTest, AFileThatWasReplacedIsNotPublished) {
  WriteModel(1);
  const auto output = CreateModelFile(path_, kToken).value();
  ASSERT_TRUE(output->Begin(Tables(), {}, {}).ok());
  ASSERT_EQ(unlink(UnfinishedModelPath(path_).c_str()), 0);
  std::ofstream(UnfinishedModelPath(path_)) << "another";
  const absl::Status status = output->Publish({}, HashOf(std::vector<float>(9)));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("removed or replaced"));
  EXPECT_TRUE(ModelTables::Open(path_).ok()) << "the older model is whole";
}

TEST_F(ModelFileTest, ALinkIsNotFollowed) {
  const std::string precious = path_ + ".precious";
  std::ofstream(precious) << "precious";
  ASSERT_EQ(symlink(precious.c_str(), UnfinishedModelPath(path_).c_str()), 0);
  EXPECT_FALSE(CreateModelFile(path_, kToken).ok());
  ASSERT_EQ(unlink(UnfinishedModelPath(path_).c_str()), 0);
  ASSERT_EQ(link(precious.c_str(), UnfinishedModelPath(path_).c_str()), 0);
  const absl::Status status = CreateModelFile(path_, kToken).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("got a link; remove it"));
  EXPECT_EQ(std::filesystem::file_size(precious), 8u);
}

TEST_F(ModelFileTest, APipeIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const absl::Status status = ModelTables::Open(path_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a file: it is a pipe, "));
}

TEST_F(ModelFileTest, TwoJobsCannotWriteOneFile) {
  const auto first = CreateModelFile(path_, kToken).value();
  const absl::Status second = CreateModelFile(path_, kToken).status();
  EXPECT_TRUE(absl::IsAborted(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr("another job is writing this file"));
  EXPECT_TRUE(first->Begin(Tables(), {}, {}).ok());
}

TEST_F(ModelFileTest, AFolderThatIsNotThereIsNamedAtOnce) {
  const absl::Status missing = CreateModelFile("/no/such/folder/m.safetensors", kToken).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/no/such/folder/m.safetensors"));
  const absl::Status folder = CreateModelFile(testing::TempDir(), kToken).status();
  EXPECT_TRUE(absl::IsInvalidArgument(folder)) << folder;
}

// The limit of a file's size stands for a full disk.
TEST_F(ModelFileTest, WithoutRoomOnTheDiskNothingIsPublished) {
  WriteModel(1);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 200, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = CreateModelFile(path_, kToken).value()->Begin(Tables(), {}, {});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("m.safetensors.unfinished: expected"));
  EXPECT_TRUE(ModelTables::Open(path_).ok()) << "the older file is whole";
}

TEST_F(ModelFileTest, EveryDifferenceIsNamed) {
  WriteModel(1);
  const auto model = ModelTables::Open(path_).value();
  const absl::Status status =
      model->CheckTables(Tables({Table("weight", {3, 2}), Table("scale", {1})}));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("weight: expected [3, 2] of F32, got [2, 3] of F32"));
  EXPECT_THAT(text, HasSubstr("scale: expected [1], got none"));
  EXPECT_THAT(text, HasSubstr("bias: expected none, got [3]"));
  const absl::Status other = model->CheckTables(Tables({Table("weight", {2, 3})}));
  EXPECT_THAT(std::string(other.message()), Not(HasSubstr("weight")));
  std::vector<v1::TableSpec> many;
  for (int i = 0; i < 100; ++i) many.push_back(Table(absl::StrCat("t", i), {1}));
  const absl::Status cut = model->CheckTables(Tables(many));
  EXPECT_THAT(std::string(cut.message()),
              AllOf(HasSubstr("t15: "), HasSubstr("and 86 more"), Not(HasSubstr("t16"))));
}

TEST_F(ModelFileTest, OtherDtypesAreNamedWithTheRemedy) {
  Safetensors file;
  file.tensors = {{"weight", "BF16", {2, 3}}, {"bias", "F32", {3}}};
  std::ofstream(path_, std::ios::binary)
      << EncodeSafetensorsHeader(file) << std::string(6 * 2 + 3 * 4, '\0');
  const std::string text(ModelTables::Open(path_).value()->CheckTables(Tables()).message());
  EXPECT_THAT(text, AllOf(HasSubstr("expected the job's tables as F32: weight: "),
                          HasSubstr("got [2, 3] of BF16. Convert the file"),
                          Not(HasSubstr("another model"))));
}

TEST_F(ModelFileTest, KeysOfAnotherDtypeAreNotToBeMadeFloats) {
  v1::TableSpec items;
  items.set_name("items");
  items.mutable_sparse()->set_dim(1);
  Safetensors file;
  file.tensors = {{"items.keys", "U64", {2}}, {"items.values", "F32", {2, 1}}};
  std::ofstream(path_, std::ios::binary)
      << EncodeSafetensorsHeader(file) << std::string(2 * 8 + 2 * 4, '\0');
  const std::string text(ModelTables::Open(path_).value()->CheckTables(Tables({items})).message());
  EXPECT_THAT(text, AllOf(HasSubstr("items.keys: expected [2] of I64, got [2] of U64"),
                          Not(HasSubstr("as F32"))));
}

TEST_F(ModelFileTest, RowsAreReadAsTheyWereWritten) {
  v1::TableSpec items;
  items.set_name("items");
  items.mutable_sparse()->set_dim(2);
  for (const uint64_t rows : {0, 2}) {
    const TableOfRows table = {"items", rows, /*dim=*/2, /*state_floats=*/1};
    const auto output = CreateModelFile(path_, kToken).value();
    ASSERT_TRUE(output->Begin(Tables(), {table}, {}).ok());
    const std::vector<uint64_t> keys = {UINT64_MAX, 5};
    const std::vector<float> values = {1, 2, 3, 4}, state = {6, 7};
    if (rows > 0) {
      ASSERT_TRUE(OpenPart()->WriteRows(table, 0, keys, values, state).ok());
    }
    ASSERT_TRUE(output->Publish({}, HashOf(std::vector<float>(9))).ok());
    const auto model = ModelTables::Open(path_).value();
    EXPECT_TRUE(
        model->CheckTables(Tables({items, Table("weight", {2, 3}), Table("bias", {3})})).ok());
    const ModelTables::Rows read = model->ReadRows("items").value();
    EXPECT_EQ(read.keys, rows > 0 ? keys : std::vector<uint64_t>());
    EXPECT_EQ(read.values, rows > 0 ? values : std::vector<float>());
  }
  items.mutable_sparse()->set_dim(4);
  const auto model = ModelTables::Open(path_).value();
  EXPECT_THAT(std::string(model->CheckTables(Tables({items})).message()),
              HasSubstr("items.values: expected [2, 4] of F32, got [2, 2] of F32"));
}

TEST_F(ModelFileTest, WhatIsNoModelIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(ModelTables::Open(path_).status()));
  const auto expect = [this](const std::string& bytes, const std::string& text) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    const absl::Status status = ModelTables::Open(path_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  expect("", "got an empty file");
  expect("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "run git lfs pull");
  expect("<!DOCTYPE html><html><body>Sign in</body></html>", "got a page in HTML");
  expect("PK\x03\x04 of PyTorch", "got a ZIP archive, as PyTorch's save");
  expect("abc", "got 3 bytes");
  expect(std::string(8, '\xff') + "{}", "do not begin with the length of a header");
  expect(std::string("\x03\0\0\0\0\0\0\0{}", 10), "a header of 3: its end is missing");
  expect(std::string("\x02\0\0\0\0\0\0\0[]", 10), "a JSON object");
  expect(std::string("\x01\0\x80\0\0\0\0\0", 8) + std::string(9 << 20, ' '),
         "a header of at most 8388608 bytes, got 8388609");
  WriteModel(1);
  std::ifstream in(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  expect(whole.substr(0, whole.size() - 1), "its end is missing; copy or download it again");
}

}  // namespace
}  // namespace capstan
