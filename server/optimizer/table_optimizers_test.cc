#include "server/optimizer/table_optimizers.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

v1::JobSpec JobWithMomentum() {
  v1::JobSpec job;
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::MOMENTUM);
  return job;
}

google::protobuf::RepeatedPtrField<v1::TableSpec> TableWith(v1::OptimizerSpec::Type type,
                                                            double learning_rate) {
  google::protobuf::RepeatedPtrField<v1::TableSpec> tables;
  v1::TableSpec& table = *tables.Add();
  table.set_name("embedding");
  table.mutable_optimizer()->set_type(type);
  table.mutable_optimizer()->set_learning_rate(learning_rate);
  return tables;
}

TEST(TableOptimizersTest, ATableWithoutAnOptimizerHasTheJobs) {
  v1::TableSpec table;
  EXPECT_EQ(OptimizerOf(JobWithMomentum(), table).type(), v1::OptimizerSpec::MOMENTUM);
  table.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAM);
  EXPECT_EQ(OptimizerOf(JobWithMomentum(), table).type(), v1::OptimizerSpec::ADAM);
}

TEST(TableOptimizersTest, WhatCannotBeMadeIsRefusedWithItsTable) {
  EXPECT_TRUE(
      CheckTableOptimizers(JobWithMomentum(), TableWith(v1::OptimizerSpec::ADAM, 0.1)).ok());
  EXPECT_EQ(CheckTableOptimizers(JobWithMomentum(), TableWith(v1::OptimizerSpec::ADAM, -1)),
            absl::InvalidArgumentError(
                "table embedding: optimizer.learning_rate: expected a number above 0 (1.2e-38 to "
                "1e9), got -1; correct it"));
  EXPECT_EQ(
      CheckTableOptimizers(JobWithMomentum(), TableWith(v1::OptimizerSpec::TYPE_UNSPECIFIED, 0.1)),
      absl::InvalidArgumentError(
          "table embedding: optimizer.type: expected SGD, MOMENTUM, NESTEROV, ADAGRAD, ADAM, "
          "ADAMW, "
          "RMSPROP or LION for a dense table, got TYPE_UNSPECIFIED; name one"));
}

// The default of the field is MOMENTUM.
TEST(TableOptimizersTest, AnOptimizerThatThisVersionDoesNotKnowIsRefused) {
  auto tables = TableWith(v1::OptimizerSpec::ADAM, 0.1);
  v1::OptimizerSpec& optimizer = *tables.Mutable(0)->mutable_optimizer();
  optimizer.clear_type();
  optimizer.mutable_unknown_fields()->AddVarint(v1::OptimizerSpec::kTypeFieldNumber, 99);
  EXPECT_EQ(CheckTableOptimizers(JobWithMomentum(), tables),
            absl::InvalidArgumentError(
                "table embedding: optimizer.type: expected one of sgd, momentum, nesterov, "
                "adagrad, adam, adamw, row_adagrad, ftrl, rmsprop, lion, got 99; use programs of "
                "one version"));
}

TEST(TableOptimizersTest, WithDgcOnlySgdIsAccepted) {
  v1::JobSpec job;
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_codec()->set_dgc(true);
  EXPECT_TRUE(CheckTableOptimizers(job, TableWith(v1::OptimizerSpec::SGD, 0.1)).ok());
  EXPECT_EQ(CheckTableOptimizers(job, TableWith(v1::OptimizerSpec::ADAM, 0.1)),
            absl::InvalidArgumentError(
                "table embedding: optimizer.type: expected SGD, because with dgc the workers "
                "compute the momentum, got ADAM; correct it, or start the job without --dgc"));
}

TEST(TableOptimizersTest, AnOptimizerOfTheJobThatNoTableHasIsRefused) {
  auto tables = TableWith(v1::OptimizerSpec::ADAM, 0.1);
  v1::JobSpec job;
  EXPECT_TRUE(CheckJobOptimizerIsUsed(job, tables).ok());
  job.mutable_optimizer()->set_learning_rate(0.1);
  EXPECT_EQ(CheckJobOptimizerIsUsed(job, tables),
            absl::InvalidArgumentError(
                "optimizer.learning_rate: expected none, because the program gives every table an "
                "optimizer of its own; set it in the program, and start the job without"));
  job.mutable_codec()->set_dgc(true);
  EXPECT_TRUE(CheckJobOptimizerIsUsed(job, tables).ok());
  job.clear_codec();
  tables.Add()->set_name("bias");
  EXPECT_TRUE(CheckJobOptimizerIsUsed(job, tables).ok()) << "the bias has the job's";
}

TEST(TableOptimizersTest, ATableWhoseOptimizerTheProgramRunsHasNone) {
  v1::JobSpec job;
  job.mutable_optimizer()->set_learning_rate(-1);
  google::protobuf::RepeatedPtrField<v1::TableSpec> tables;
  tables.Add()->set_name("w");
  EXPECT_TRUE(absl::IsInvalidArgument(CheckTableOptimizers(job, tables))) << "it has the job's";
  tables[0].set_replies_mean(true);
  EXPECT_TRUE(CheckTableOptimizers(job, tables).ok());
}

TEST(TableOptimizersTest, TheOptimizerOfAJobWhoseProgramRunsItsOwnIsRefused) {
  google::protobuf::RepeatedPtrField<v1::TableSpec> tables;
  tables.Add()->set_replies_mean(true);
  v1::JobSpec job;
  EXPECT_TRUE(CheckJobOptimizerIsUsed(job, tables).ok());
  job.mutable_optimizer()->set_learning_rate(0.1);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckJobOptimizerIsUsed(job, tables)));
  tables.Add()->set_name("bias");
  EXPECT_TRUE(CheckJobOptimizerIsUsed(job, tables).ok()) << "the bias has the job's";
}

TEST(TableOptimizersTest, SparseTablesHaveOptimizersOfTheirOwnKind) {
  const v1::JobSpec job = JobWithMomentum();
  for (const auto type :
       {v1::OptimizerSpec::SGD, v1::OptimizerSpec::ADAGRAD, v1::OptimizerSpec::ROW_ADAGRAD,
        v1::OptimizerSpec::ADAM, v1::OptimizerSpec::FTRL}) {
    auto tables = TableWith(type, 0.1);
    tables[0].mutable_sparse()->set_dim(4);
    EXPECT_TRUE(CheckTableOptimizers(job, tables).ok()) << type;
    tables[0].mutable_optimizer()->set_weight_decay(0.1);
    EXPECT_TRUE(absl::IsInvalidArgument(CheckTableOptimizers(job, tables))) << type;
  }
  auto tables = TableWith(v1::OptimizerSpec::ADAMW, 0.1);
  tables[0].mutable_sparse()->set_dim(4);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckTableOptimizers(job, tables)));
  tables[0].clear_optimizer();
  EXPECT_TRUE(absl::IsInvalidArgument(CheckTableOptimizers(job, tables))) << "the job's momentum";
  tables[0].clear_sparse();
  EXPECT_TRUE(CheckTableOptimizers(job, tables).ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(CheckTableOptimizers(job, TableWith(v1::OptimizerSpec::FTRL, 0.1))));
}

}  // namespace
}  // namespace capstan
