#include "server/optimizer/state_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Tables = google::protobuf::RepeatedPtrField<v1::TableSpec>;

v1::TableSpec Table(const std::string& name, v1::OptimizerSpec::Type optimizer) {
  v1::TableSpec table;
  table.set_name(name);
  table.add_shape(3);
  table.mutable_optimizer()->set_type(optimizer);
  return table;
}

v1::TableSpec SparseTable() {
  v1::TableSpec table = Table("items", v1::OptimizerSpec::ADAGRAD);
  table.clear_shape();
  table.mutable_sparse()->set_dim(2);
  return table;
}

TEST(StateTensorsTest, NamesAreTheTablesWithTorchsNames) {
  const StateTensors adam = StateTensorsOf({}, Table("fc.weight", v1::OptimizerSpec::ADAM));
  EXPECT_THAT(adam.arrays,
              ElementsAre("optimizer.fc.weight.exp_avg", "optimizer.fc.weight.exp_avg_sq"));
  EXPECT_EQ(adam.step, "optimizer.fc.weight.step");
  v1::TableSpec of_job;
  of_job.set_name("w");
  EXPECT_THAT(StateTensorsOf({}, of_job).arrays, ElementsAre("optimizer.w.momentum_buffer"));
}

TEST(StateTensorsTest, WithoutStateThereAreNone) {
  for (const v1::TableSpec& table : {Table("w", v1::OptimizerSpec::SGD), SparseTable()}) {
    const StateTensors none = StateTensorsOf({}, table);
    EXPECT_THAT(none.arrays, IsEmpty());
    EXPECT_EQ(none.step, "");
  }
}

TEST(StateTensorsTest, ArraysHaveTheTablesShapeAndStepsAreScalars) {
  Tables tables;
  *tables.Add() = Table("w", v1::OptimizerSpec::ADAGRAD);
  *tables.Add() = SparseTable();
  *tables.Add() = Table("b", v1::OptimizerSpec::SGD);
  const Tables state = StateTables({}, tables).value();
  ASSERT_EQ(state.size(), 2);
  EXPECT_EQ(state[0].name(), "optimizer.w.sum");
  EXPECT_THAT(state[0].shape(), ElementsAre(3));
  EXPECT_EQ(state[1].name(), "optimizer.w.step");
  EXPECT_THAT(state[1].shape(), IsEmpty());
}

TEST(StateTensorsTest, TheStateOfRowsOfATensorIsRowsOfItsState) {
  Tables tables;
  *tables.Add() = Table("w/0", v1::OptimizerSpec::ADAGRAD);
  tables[0].set_tensor("w");
  const Tables state = StateTables({}, tables).value();
  ASSERT_EQ(state.size(), 2);
  EXPECT_EQ(state[0].name(), "optimizer.w/0.sum");
  EXPECT_EQ(state[0].tensor(), "optimizer.w.sum");
  EXPECT_EQ(state[1].name(), "optimizer.w/0.step");
  EXPECT_EQ(state[1].tensor(), "optimizer.w.step");
}

TEST(StateTensorsTest, ATableWithSuchANameAndAJobWithoutDenseTablesAreRefused) {
  const auto error_of = [](const v1::TableSpec& table) {
    Tables tables;
    *tables.Add() = table;
    return std::string(StateTables({}, tables).status().message());
  };
  EXPECT_THAT(error_of(Table("optimizer.w", v1::OptimizerSpec::SGD)),
              HasSubstr("do not begin with optimizer., as those of the optimizer's state do, got "
                        "optimizer.w; "));
  EXPECT_THAT(error_of(SparseTable()), HasSubstr("expected a dense table"));
}

}  // namespace
}  // namespace capstan
