#include "common/history/contract_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using testing::ElementsAre;

// "SSP 5 for table 1 from 7"
std::string Text(const v1::ContractRecord& record) {
  return absl::StrCat(v1::ContractRecord::Mode_Name(record.mode()), " ", record.staleness(),
                      record.has_table() ? absl::StrCat(" for table ", record.table()) : "",
                      " from ", record.from_step());
}

std::vector<std::string> Texts(const std::vector<v1::ContractRecord>& records) {
  std::vector<std::string> texts;
  for (const v1::ContractRecord& record : records) texts.push_back(Text(record));
  return texts;
}

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

TEST(ContractLogTest, AJobPromisesItsModeAndStalenessFromTheStart) {
  v1::JobSpec job;
  EXPECT_EQ(Text(FirstContract(job.consistency())), "BSP 0 from 0") << "the default";
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  job.mutable_consistency()->set_staleness(3);
  EXPECT_EQ(Text(FirstContract(job.consistency())), "SSP 3 from 0");
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  job.mutable_consistency()->clear_staleness();
  EXPECT_EQ(Text(FirstContract(job.consistency())), "ASYNC 0 from 0");
}

TEST(ContractLogTest, TablesAndChangesAreRecordedOnce) {
  v1::JobView view = View();
  ContractLog log;
  EXPECT_THAT(Texts(log.Update(view)), ElementsAre("SSP 5 for table 1 from 0"));
  EXPECT_TRUE(log.Update(view).empty());

  v1::ConsistencyPeriod& later = *view.add_consistency();
  later.set_first_step(7);
  later.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  EXPECT_THAT(Texts(log.Update(view)), ElementsAre("BSP 0 from 7"));
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
