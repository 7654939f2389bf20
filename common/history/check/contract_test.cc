#include "common/history/check/contract.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace capstan {
namespace {

v1::ContractRecord Record(int64_t from_step, v1::ContractRecord::Mode mode, int64_t staleness,
                          std::optional<uint32_t> table = std::nullopt) {
  v1::ContractRecord record;
  record.set_from_step(from_step);
  record.set_mode(mode);
  record.set_staleness(staleness);
  record.set_has_table(table.has_value());
  record.set_table(table.value_or(0));
  return record;
}

TEST(ContractTest, TheLatestStepCountsAndAtTheSameStepTheTable) {
  const std::vector<v1::ContractRecord> records = {
      Record(0, v1::ContractRecord::SSP, 2), Record(0, v1::ContractRecord::SSP, 7, /*table=*/1),
      Record(10, v1::ContractRecord::SSP, 4), Record(20, v1::ContractRecord::BSP, 0)};
  ASSERT_TRUE(Contract::Check(records).ok());
  const Contract contract(records);
  EXPECT_EQ(contract.Of(TableId(0), Step(9)).staleness, 2);
  EXPECT_EQ(contract.Of(TableId(1), Step(9)).staleness, 7);
  EXPECT_EQ(contract.Of(TableId(1), Step(10)).staleness, 4);
  EXPECT_TRUE(contract.Of(TableId(0), Step(20)).is_isolated());
  EXPECT_EQ(contract.Of(TableId(0), Step(20)).staleness, 0);
}

TEST(ContractTest, AContractMustSayAModeAndAStalenessAndStartAtStepZero) {
  EXPECT_FALSE(Contract::Check({}).ok());
  EXPECT_FALSE(Contract::Check({Record(1, v1::ContractRecord::BSP, 0)}).ok());
  EXPECT_FALSE(Contract::Check({Record(0, v1::ContractRecord::BSP, 0, /*table=*/1)}).ok());
  EXPECT_FALSE(Contract::Check({Record(0, v1::ContractRecord::MODE_UNSPECIFIED, 0)}).ok());
  EXPECT_FALSE(Contract::Check({Record(0, v1::ContractRecord::SSP, -1)}).ok());
}

}  // namespace
}  // namespace capstan
