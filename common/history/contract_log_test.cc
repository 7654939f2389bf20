#include "common/history/contract_log.h"

#include <gtest/gtest.h>

#include "common/history/contract.h"
#include "common/history/contract_of_job.h"

namespace capstan {
namespace {

// Tables "a" and "b"; SSP(2), for "b" 5.
v1::JobView View() {
  v1::JobView view;
  view.add_tables()->set_name("a");
  view.add_tables()->set_name("b");
  v1::ConsistencySpec& consistency = *view.add_consistency()->mutable_consistency();
  consistency.set_mode(v1::ConsistencySpec::SSP);
  consistency.set_staleness(2);
  v1::TableStaleness& own = *consistency.add_table_staleness();
  own.set_table("b");
  own.set_staleness(5);
  return view;
}

TEST(ContractLogTest, TablesAndChangesAreRecordedOnce) {
  v1::JobView view = View();
  v1::JobSpec job;
  *job.mutable_consistency() = view.consistency(0).consistency();
  std::vector<v1::ContractRecord> records = {ContractOfJob(job)};
  ContractLog log;
  for (const auto& record : log.Update(view)) records.push_back(record);
  EXPECT_TRUE(log.Update(view).empty()) << "it is known";

  v1::ConsistencyPeriod& later = *view.add_consistency();
  later.set_first_step(7);
  later.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  for (const auto& record : log.Update(view)) records.push_back(record);

  ASSERT_TRUE(Contract::Check(records).ok());
  const Contract contract(records);
  EXPECT_EQ(contract.Of(TableId(0), Step(6)).staleness, 2);
  EXPECT_EQ(contract.Of(TableId(1), Step(6)).staleness, 5);
  EXPECT_TRUE(contract.Of(TableId(0), Step(7)).is_isolated());
  EXPECT_TRUE(contract.Of(TableId(1), Step(7)).is_isolated());
}

TEST(ContractLogTest, WithoutTablesThereIsNothingYet) {
  v1::JobView view = View();
  view.clear_tables();
  ContractLog log;
  EXPECT_TRUE(log.Update(view).empty());
  EXPECT_EQ(log.Update(View()).size(), 1u);
}

}  // namespace
}  // namespace capstan
