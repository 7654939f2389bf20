#include "server/coordinator/members/job_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::RegisterWorkerRequest Worker(uint64_t elements, uint32_t own_arrays = 0) {
  v1::RegisterWorkerRequest worker;
  worker.add_tables()->set_name("w");
  worker.mutable_tables(0)->add_shape(elements);
  worker.set_own_arrays(own_arrays);
  return worker;
}

class JobTablesTest : public testing::Test {
 protected:
  // The message of the error; empty: the tables are taken.
  std::string Take(const v1::RegisterWorkerRequest& worker, bool is_first) {
    const absl::Status status = tables_.Take(worker, is_first, /*slice_bytes=*/64);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  v1::JobSpec job_;
  RestorePoint restored_;
  JobTables tables_{job_, restored_};
};

TEST_F(JobTablesTest, TheFirstWorkersTablesAreTheJobs) {
  EXPECT_EQ(Take(Worker(20, /*own_arrays=*/1), /*is_first=*/true), "");
  EXPECT_EQ(tables_.specs().size(), 1);
  EXPECT_THAT(tables_.elements(), ElementsAre(20u));
  EXPECT_EQ(tables_.own_arrays(), 1u);
  EXPECT_EQ(Take(Worker(20, 1), /*is_first=*/false), "");
}

TEST_F(JobTablesTest, OtherWorkersHaveTheSame) {
  ASSERT_EQ(Take(Worker(20, 1), /*is_first=*/true), "");
  EXPECT_THAT(Take(Worker(21, 1), /*is_first=*/false), HasSubstr("the first worker"));
  EXPECT_THAT(Take(Worker(20, 2), /*is_first=*/false),
              HasSubstr("expected 1 arrays of own state, as the first worker has, got 2"));
  EXPECT_THAT(tables_.elements(), ElementsAre(20u));
}

TEST_F(JobTablesTest, TablesThatDoNotFitTheJobAreNotTaken) {
  v1::TableStaleness& own = *job_.mutable_consistency()->add_table_staleness();
  own.set_table("b");
  own.set_staleness(3);
  EXPECT_THAT(Take(Worker(20), /*is_first=*/true), HasSubstr("b"));
  EXPECT_TRUE(tables_.specs().empty());
  EXPECT_THAT(Take(Worker(0), /*is_first=*/true), HasSubstr("w"));
}

TEST_F(JobTablesTest, ATableWhoseOptimizerTheProgramRunsIsTakenUnderBspAlone) {
  v1::RegisterWorkerRequest worker = Worker(20);
  worker.mutable_tables(0)->set_replies_mean(true);
  job_.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  EXPECT_THAT(Take(worker, /*is_first=*/true), HasSubstr("expected --consistency=bsp"));
  EXPECT_TRUE(tables_.specs().empty());
  job_.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  EXPECT_EQ(Take(worker, /*is_first=*/true), "");
  EXPECT_TRUE(tables_.specs()[0].replies_mean());
  EXPECT_THAT(Take(Worker(20), /*is_first=*/false), HasSubstr("whose optimizer the program runs"));
}

TEST_F(JobTablesTest, AlsoTheFirstWorkerHasTheTablesOfTheCheckpoint) {
  restored_.path = "dir/c1";
  *restored_.manifest.mutable_tables() = Worker(20).tables();
  restored_.manifest.set_own_arrays(1);
  EXPECT_THAT(Take(Worker(21, 1), /*is_first=*/true), HasSubstr("the checkpoint"));
  EXPECT_THAT(Take(Worker(20, 0), /*is_first=*/true),
              HasSubstr("expected 1 arrays of own state, as the checkpoint has, got 0"));
  EXPECT_EQ(Take(Worker(20, 1), /*is_first=*/true), "");
}

}  // namespace
}  // namespace capstan
