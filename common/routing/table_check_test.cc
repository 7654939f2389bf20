#include "common/routing/table_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSliceBytes = 1024;

v1::TableSpec Table(const std::string& name, std::vector<uint64_t> shape) {
  v1::TableSpec table;
  table.set_name(name);
  for (const uint64_t size : shape) table.add_shape(size);
  return table;
}

TableSpecs Tables(std::vector<v1::TableSpec> list) { return {list.begin(), list.end()}; }

std::string ErrorOf(std::vector<v1::TableSpec> tables) {
  const absl::Status status = CheckTables(Tables(tables), kSliceBytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string DifferenceOf(std::vector<v1::TableSpec> tables, std::vector<v1::TableSpec> first) {
  const absl::Status status = CheckSameTables(Tables(tables), Tables(first), "the first worker",
                                              "start every worker with the same job");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(CheckTablesTest, CountsTheElementsOfEachTable) {
  const auto elements = CheckTables(Tables({Table("w", {64, 10}), Table("b", {10})}), kSliceBytes);
  ASSERT_TRUE(elements.ok()) << elements.status();
  EXPECT_THAT(*elements, ElementsAre(640u, 10u));
}

v1::TableSpec SparseTable(uint32_t dim) {
  v1::TableSpec table = Table("items", {});
  table.mutable_sparse()->set_dim(dim);
  return table;
}

TEST(CheckTablesTest, ASparseTableHasNoElements) {
  const auto elements = CheckTables(Tables({Table("w", {3}), SparseTable(16)}), kSliceBytes);
  ASSERT_TRUE(elements.ok()) << elements.status();
  EXPECT_THAT(*elements, ElementsAre(3u, 0u));
}

TEST(CheckTablesTest, RefusesASparseTableWhoseLimitsAreOutOfRange) {
  EXPECT_THAT(ErrorOf({SparseTable(0)}), HasSubstr("expected a dim of 1 to 1024, got 0"));
  EXPECT_THAT(ErrorOf({SparseTable(1025)}), HasSubstr("got 1025"));
  v1::TableSpec table = SparseTable(1);
  table.mutable_sparse()->set_admitting_push(256);
  EXPECT_THAT(ErrorOf({table}), HasSubstr("admitting push of 1 to 255, got 256"));
  table = SparseTable(1);
  table.mutable_sparse()->set_max_idle_steps(uint64_t{1} << 32);
  EXPECT_THAT(ErrorOf({table}), HasSubstr("fewer than 2^32 idle steps"));
  table = SparseTable(1);
  table.add_shape(4);
  EXPECT_THAT(ErrorOf({table}), HasSubstr("is sparse: expected no shape"));
}

TEST(CheckSameTablesTest, SparseTablesDifferByTheirLimits) {
  v1::TableSpec other = SparseTable(4);
  other.mutable_sparse()->set_max_rows(100);
  EXPECT_THAT(DifferenceOf({other}, {SparseTable(4)}), HasSubstr("sparse {dim: 4 max_rows: 100}"));
}

TEST(CheckSparseTablesTest, RefusesFilesThatHoldDenseTablesOnly) {
  v1::JobSpec job;
  EXPECT_TRUE(CheckSparseTables(job, Tables({SparseTable(4)})).ok());
  job.mutable_checkpoint()->set_dir("kept");
  EXPECT_TRUE(CheckSparseTables(job, Tables({SparseTable(4)})).ok());
  job.set_output("model.safetensors");
  EXPECT_TRUE(CheckSparseTables(job, Tables({Table("w", {3})})).ok());
  const absl::Status status = CheckSparseTables(job, Tables({Table("w", {3}), SparseTable(4)}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("table items is sparse"));
}

TEST(CheckTablesTest, RefusesAJobWithoutTables) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("no tables"));
}

TEST(CheckTablesTest, RefusesATableWithoutName) {
  EXPECT_THAT(ErrorOf({Table("a", {1}), Table("", {1})}), HasSubstr("table 1 has no name"));
}

TEST(CheckTablesTest, RefusesTheNameOfMetadata) {
  EXPECT_THAT(ErrorOf({Table("__metadata__", {1})}), HasSubstr("called __metadata__"));
}

TEST(CheckTablesTest, RefusesANameThatIsUsedTwice) {
  EXPECT_THAT(ErrorOf({Table("a", {1}), Table("a", {2})}), HasSubstr("two tables are called a"));
}

v1::TableSpec Rows(const std::string& name, std::vector<uint64_t> shape) {
  v1::TableSpec table = Table(name, std::move(shape));
  table.set_tensor("w");
  return table;
}

TEST(CheckTablesTest, RowsOfATensorLieTogetherAndFitEachOther) {
  EXPECT_TRUE(
      CheckTables(Tables({Table("b", {3}), Rows("w/0", {2, 3}), Rows("w/1", {1, 3})}), kSliceBytes)
          .ok());
  EXPECT_THAT(
      ErrorOf({Rows("w/0", {2, 3}), Rows("w/1", {2, 4})}),
      HasSubstr("tables w/0 and w/1 are rows of tensor w: expected shapes that differ in the "
                "first size only, got [2, 3] and [2, 4]"));
  EXPECT_THAT(ErrorOf({Rows("w/0", {2, 3}), Rows("w/1", {2, 3, 1})}),
              HasSubstr("rows of tensor w"));
  const std::string apart = "expected all its tables one after the other";
  EXPECT_THAT(ErrorOf({Rows("w/0", {2}), Table("b", {3}), Rows("w/1", {2})}), HasSubstr(apart));
  EXPECT_THAT(ErrorOf({Table("w", {3}), Rows("w/0", {2})}), HasSubstr(apart));
  EXPECT_THAT(ErrorOf({Rows("w/0", {2}), Table("w", {3})}), HasSubstr("two tables are called w"));
  v1::TableSpec other = Rows("w/1", {2});
  other.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAM);
  EXPECT_THAT(ErrorOf({Rows("w/0", {2}), other}), HasSubstr("expected one optimizer of all"));
  v1::TableSpec sparse = SparseTable(16);
  sparse.set_tensor("w");
  EXPECT_THAT(ErrorOf({sparse}), HasSubstr("is rows of tensor w: expected a dense table"));
}

TEST(CheckTablesTest, RefusesSizesThatAreNotPositive) {
  EXPECT_THAT(ErrorOf({Table("a", {2, 0})}), HasSubstr("table a has shape [2, 0]"));
  EXPECT_THAT(ErrorOf({Table("a", {})}), HasSubstr("table a has no shape"));
}

TEST(CheckTablesTest, RefusesSizesWhoseProductDoesNotFit) {
  EXPECT_THAT(ErrorOf({Table("a", {uint64_t{1} << 40, uint64_t{1} << 40})}), HasSubstr("2^64"));
  EXPECT_THAT(ErrorOf({Table("a", {uint64_t{1} << 62})}), HasSubstr("2^64"));
}

TEST(CheckTablesTest, RefusesMoreSlicesThanFitInMemory) {
  EXPECT_THAT(ErrorOf({Table("a", {uint64_t{1} << 40})}), HasSubstr("raise scheduler.slice_bytes"));
}

TEST(CheckTablesTest, RefusesInitialValuesThatAreNotFinite) {
  v1::TableSpec table = Table("a", {1});
  table.set_initial_stddev(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(ErrorOf({table}), HasSubstr("table a has initial_stddev nan"));
  table.set_initial_stddev(-1);
  EXPECT_THAT(ErrorOf({table}), HasSubstr("table a has initial_stddev -1"));
}

TEST(CheckOwnArraysTest, TheArraysOfASliceFitInOneMessage) {
  EXPECT_TRUE(CheckOwnArrays(4, 0, {1 << 20}, /*slice_bytes=*/16 << 20).ok());
  EXPECT_TRUE(CheckOwnArrays(4, 0, {1 << 20}, /*slice_bytes=*/64 << 20).ok())
      << "slices are smaller";
  EXPECT_THAT(std::string(CheckOwnArrays(3, 1, {5, 1 << 25}, 32 << 20).message()),
              HasSubstr("got 4 arrays of 33554432 bytes; lower scheduler.slice_bytes"));
  EXPECT_EQ(CheckOwnArrays(5, 0, {1}, 64).message(),
            "expected at most 4 arrays of own state of each worker, got 5");
}

v1::TableSpec MeanTable() {
  v1::TableSpec table = Table("w", {3});
  table.set_replies_mean(true);
  return table;
}

// Under BSP, in which the table replies the mean.
std::string MeanErrorOf(const v1::JobSpec& job, const v1::TableSpec& table = MeanTable()) {
  const absl::Status status =
      CheckMeanTables(job, Tables({Table("other", {2}), table}), kMaxSliceBytes / 32);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

v1::JobSpec BspJob() {
  v1::JobSpec job;
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  return job;
}

TEST(CheckMeanTablesTest, UnderBspMostCodecsArePossible) {
  v1::JobSpec job = BspJob();
  job.mutable_codec()->set_push("topk:0.01");
  for (const char* const pull : {"", "float32", "bfloat16", "int8"}) {
    job.mutable_codec()->set_pull(pull);
    const absl::Status status = CheckMeanTables(job, Tables({MeanTable()}), kMaxSliceBytes / 32);
    EXPECT_TRUE(status.ok()) << pull << ": " << status;
  }
}

TEST(CheckMeanTablesTest, RefusesASparseTableOrOneWithAnOptimizerOfTheServers) {
  v1::TableSpec table = MeanTable();
  table.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  const std::string expected =
      "table w, whose optimizer the program runs: expected a dense table without an optimizer of "
      "the servers";
  EXPECT_EQ(MeanErrorOf(BspJob(), table), expected);
  table = MeanTable();
  table.mutable_sparse()->set_dim(4);
  EXPECT_EQ(MeanErrorOf(BspJob(), table), expected);
}

TEST(CheckMeanTablesTest, RefusesEveryModeButBsp) {
  v1::JobSpec job;
  for (const auto mode : {v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    job.mutable_consistency()->set_mode(mode);
    EXPECT_THAT(MeanErrorOf(job), HasSubstr("table w, whose optimizer the program runs: expected "
                                            "--consistency=bsp, since all workers"));
    EXPECT_TRUE(CheckMeanTables(job, Tables({Table("w", {3})}), kMaxSliceBytes / 32).ok())
        << "another kind of table";
  }
}

TEST(CheckMeanTablesTest, RefusesSlicesWithoutRoomForTheOptimizersState) {
  v1::TableSpec table = MeanTable();
  table.clear_shape();
  table.add_shape(kMaxSliceBytes);
  const absl::Status status = CheckMeanTables(BspJob(), Tables({table}), kMaxSliceBytes);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--slice_bytes of at most 3947520, got"));
}

TEST(CheckMeanTablesTest, RefusesAJobWhoseWorkersComeAndGo) {
  v1::JobSpec job = BspJob();
  job.set_stay(true);
  EXPECT_THAT(MeanErrorOf(job), HasSubstr("expected no --stay"));
}

TEST(CheckMeanTablesTest, RefusesDgcAndPullsThatAreNotOfTheWholeMean) {
  v1::JobSpec job = BspJob();
  job.mutable_codec()->set_dgc(true);
  EXPECT_THAT(MeanErrorOf(job), HasSubstr("expected no --dgc"));
  for (const char* const pull : {"topk:0.01", "topk-int8:0.5", "auto"}) {
    job = BspJob();
    job.mutable_codec()->set_pull(pull);
    EXPECT_THAT(MeanErrorOf(job), HasSubstr(std::string("got --pull_codec=") + pull + "; float32"));
  }
}

TEST(CheckMeanTablesTest, TheCodecOfATableGoesBeforeThatOfTheJob) {
  v1::JobSpec job = BspJob();
  job.mutable_codec()->set_pull("topk:0.01");
  v1::TableCodec& own = *job.mutable_codec()->add_table_codec();
  own.set_table("w");
  own.set_codec("bfloat16");
  EXPECT_TRUE(CheckMeanTables(job, Tables({MeanTable()}), kMaxSliceBytes / 32).ok());
  own.set_codec("topk:0.5");
  EXPECT_THAT(MeanErrorOf(job), HasSubstr("got --pull_codec=topk:0.5"));
  own.set_table("other");
  job.mutable_codec()->set_pull("int8");
  EXPECT_TRUE(
      CheckMeanTables(job, Tables({Table("other", {2}), MeanTable()}), kMaxSliceBytes / 32).ok());
}

TEST(CheckTableCodecsTest, NamesATableThatTheModelDoesNotHave) {
  v1::CodecSpec codec;
  EXPECT_TRUE(CheckTableCodecs(codec, Tables({Table("a", {1})})).ok());
  codec.add_table_codec()->set_table("fc1.weight");
  EXPECT_TRUE(CheckTableCodecs(codec, Tables({Table("a", {1}), Table("fc1.weight", {2})})).ok());
  EXPECT_EQ(CheckTableCodecs(codec, Tables({Table("a", {1}), Table("fc1", {2})})).message(),
            "--table_codec: expected tables of the model (a, fc1), got \"fc1.weight\"");
}

TEST(CheckTablesTest, RefusesTwoSourcesOfInitialValues) {
  v1::TableSpec table = Table("a", {1});
  table.set_initial_from_worker(true);
  EXPECT_TRUE(CheckTables(Tables({table}), kSliceBytes).ok());
  table.set_initial_stddev(0.5);
  EXPECT_EQ(ErrorOf({table}),
            "table a has initial values from worker 0 and initial_stddev 0.5; give one of the two");
}

TEST(CheckSameTablesTest, ComparesOptimizers) {
  v1::TableSpec adam = Table("a", {1});
  adam.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAM);
  v1::TableSpec same = adam;
  same.mutable_optimizer()->set_beta1(same.optimizer().beta1());  // the default, written out
  EXPECT_TRUE(CheckSameTables(Tables({same}), Tables({adam}), "", "").ok());
  v1::TableSpec other = adam;
  other.mutable_optimizer()->set_learning_rate(0.25);
  EXPECT_THAT(DifferenceOf({other}, {adam}),
              HasSubstr("layer 0, optimizer {type: ADAM learning_rate: 0.25} where the first"));
  EXPECT_THAT(DifferenceOf({adam}, {Table("a", {1})}),
              HasSubstr("where the first worker has table a of shape [1], initial_stddev 0, layer "
                        "0; start every worker"));
}

TEST(CheckSameTablesTest, ComparesTheSourceOfInitialValues) {
  v1::TableSpec table = Table("a", {1});
  table.set_initial_from_worker(true);
  EXPECT_THAT(DifferenceOf({table}, {Table("a", {1})}),
              HasSubstr("layer 0, initial values from worker 0 where the first"));
}

TEST(CheckSameTablesTest, ComparesWhoRunsTheOptimizer) {
  EXPECT_THAT(DifferenceOf({MeanTable()}, {Table("w", {3})}),
              HasSubstr("layer 0, whose optimizer the program runs where the first worker has "
                        "table w of shape [3], initial_stddev 0, layer 0; start"));
  EXPECT_TRUE(CheckSameTables(Tables({MeanTable()}), Tables({MeanTable()}), "", "").ok());
}

TEST(CheckSameTablesTest, ComparesTheTensor) {
  EXPECT_THAT(DifferenceOf({Rows("a", {3})}, {Table("a", {3})}), HasSubstr("rows of tensor w"));
}

TEST(CheckSameTablesTest, AcceptsEqualTables) {
  EXPECT_TRUE(CheckSameTables(Tables({Table("a", {1})}), Tables({Table("a", {1})}), "", "").ok());
}

TEST(CheckSameTablesTest, NamesTheTableAndBothShapes) {
  EXPECT_EQ(DifferenceOf({Table("a", {1}), Table("b", {2, 3})}, {Table("a", {1}), Table("b", {6})}),
            "this worker has table b of shape [2, 3], initial_stddev 0, layer 0 where the first "
            "worker has table b of shape [6], initial_stddev 0, layer 0; start every worker with "
            "the same job");
}

TEST(CheckSameTablesTest, NamesATableThatOnlyOneWorkerHas) {
  EXPECT_THAT(DifferenceOf({Table("a", {1}), Table("b", {2})}, {Table("a", {1})}),
              AllOf(HasSubstr("only this worker has table b of shape [2]"),
                    HasSubstr("; start every worker with the same job")));
  EXPECT_THAT(DifferenceOf({Table("a", {1})}, {Table("a", {1}), Table("b", {2})}),
              HasSubstr("only the first worker has table b of shape [2]"));
}

TEST(CheckSameTablesTest, ComparesInitialValuesAndLayers) {
  v1::TableSpec table = Table("a", {1});
  table.set_layer(1);
  EXPECT_THAT(DifferenceOf({table}, {Table("a", {1})}), HasSubstr("layer 1"));
  table = Table("a", {1});
  table.set_initial_stddev(0.5);
  EXPECT_THAT(DifferenceOf({table}, {Table("a", {1})}), HasSubstr("initial_stddev 0.5"));
}

TEST(WarningOfLostRowsTest, OnlyRowsOfAJobWithoutCheckpointsAreLost) {
  TableSpecs tables;
  tables.Add()->set_name("dense");
  v1::JobSpec job;
  EXPECT_EQ(WarningOfLostRows(job, tables), "");
  tables.Add()->set_name("users");
  tables.Mutable(1)->mutable_sparse()->set_dim(4);
  EXPECT_EQ(WarningOfLostRows(job, tables),
            "warning: the rows of table users are lost when the job ends, as it has no "
            "--checkpoint_dir=DIR to keep them");
  job.mutable_checkpoint()->set_dir("checkpoints");
  EXPECT_EQ(WarningOfLostRows(job, tables), "");
}

}  // namespace
}  // namespace capstan
