#include "common/model_file/table_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Tables = google::protobuf::RepeatedPtrField<v1::TableSpec>;

Tables TablesOf(const std::vector<std::string>& names) {
  Tables tables;
  for (const std::string& name : names) {
    v1::TableSpec& table = *tables.Add();
    table.set_name(name);
    table.add_shape(3);
  }
  return tables;
}

Safetensors FileOf(const std::vector<std::string>& names) {
  Safetensors file;
  for (const std::string& name : names) file.tensors.push_back({name, "F32", {3}});
  return file;
}

TEST(TableTensorsTest, TheStateOfTheTablesMayBeThere) {
  const Safetensors file = FileOf({"a.b", StateTensorName("a.b", "sum"), "optimizer.a.b.step"});
  EXPECT_TRUE(CheckTableTensors(file, TablesOf({"a.b"})).ok());
  EXPECT_TRUE(HasOptimizerState(file, TablesOf({"a.b"})));
  EXPECT_FALSE(HasOptimizerState(FileOf({"a.b"}), TablesOf({"a.b"})));
}

TEST(TableTensorsTest, OtherTensorsMayNot) {
  for (const std::string other : {"optimizer.a.sum", "optimizer.a.b", "optimizer.sum"}) {
    const Safetensors file = FileOf({"a.b", other});
    EXPECT_THAT(std::string(CheckTableTensors(file, TablesOf({"a.b"})).message()),
                HasSubstr(other + ": expected none, got [3]"));
    EXPECT_FALSE(HasOptimizerState(file, TablesOf({"a.b"})));
  }
}

TEST(TableTensorsTest, AStateThatIsWantedIsAllThatIsThere) {
  const Tables wanted = TablesOf({"w", "optimizer.w.exp_avg", "optimizer.w.exp_avg_sq"});
  EXPECT_TRUE(
      CheckTableTensors(FileOf({"w", "optimizer.w.exp_avg", "optimizer.w.exp_avg_sq"}), wanted)
          .ok());
  EXPECT_THAT(
      std::string(CheckTableTensors(
                      FileOf({"w", "optimizer.w.exp_avg", "optimizer.w.max_exp_avg_sq"}), wanted)
                      .message()),
      AllOf(HasSubstr("optimizer.w.exp_avg_sq: expected [3], got none"),
            HasSubstr("optimizer.w.max_exp_avg_sq: expected none, got [3]"),
            Not(HasSubstr("exp_avg: "))));
}

TEST(TableTensorsTest, ATableMayHaveSuchAName) {
  EXPECT_TRUE(
      CheckTableTensors(FileOf({"optimizer.w.x", "w"}), TablesOf({"w", "optimizer.w.x"})).ok());
}

}  // namespace
}  // namespace capstan
