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

v1::RegisterWorkerRequest WithLocalSteps(int64_t sync_every, uint32_t fragments = 1) {
  v1::RegisterWorkerRequest worker = Worker(20);
  worker.mutable_local_steps()->set_sync_every(sync_every);
  worker.mutable_local_steps()->set_fragments(fragments);
  return worker;
}

TEST_F(JobTablesTest, WorkersHaveTheSameLocalStepsOrNone) {
  ASSERT_EQ(Take(WithLocalSteps(50), /*is_first=*/true), "");
  EXPECT_EQ(tables_.local_steps()->sync_every(), 50);
  EXPECT_EQ(Take(WithLocalSteps(50), /*is_first=*/false), "");
  EXPECT_EQ(
      Take(WithLocalSteps(50, /*fragments=*/2), /*is_first=*/false),
      "this worker has local steps of sync_every 50, fragments 2, fragment_sync_delay 0 where "
      "the first worker has local steps of sync_every 50, fragments 1, fragment_sync_delay 0; "
      "start every worker with the same program and the same settings");
  EXPECT_THAT(
      Take(Worker(20), /*is_first=*/false),
      HasSubstr("this worker has no local steps where the first worker has local steps of"));
}

TEST_F(JobTablesTest, WorkersAreTheSameNumberOfProcesses) {
  v1::RegisterWorkerRequest pair = Worker(20);
  pair.set_processes("2 ranks");
  ASSERT_EQ(Take(pair, /*is_first=*/true), "");
  EXPECT_EQ(tables_.processes(), "2 ranks");
  EXPECT_EQ(Take(pair, /*is_first=*/false), "");
  EXPECT_THAT(Take(Worker(20), /*is_first=*/false),
              HasSubstr("this worker is one process where the first worker is 2 ranks; start "));
  pair.set_processes("4 ranks\n");
  EXPECT_THAT(Take(pair, /*is_first=*/false), HasSubstr("this worker is 4 ranks\\n where"));
  pair.set_processes(std::string(201, 'r'));
  EXPECT_THAT(Take(pair, /*is_first=*/false), HasSubstr("expected at most 200 bytes, got 201"));
}

TEST_F(JobTablesTest, AJobWithoutLocalStepsTakesNoWorkerWithThem) {
  ASSERT_EQ(Take(Worker(20), /*is_first=*/true), "");
  EXPECT_FALSE(tables_.local_steps().has_value());
  EXPECT_THAT(Take(WithLocalSteps(50), /*is_first=*/false),
              HasSubstr("fragment_sync_delay 0 where the first worker has no local steps"));
}

TEST_F(JobTablesTest, LocalStepsThatCannotBeAreNotTaken) {
  EXPECT_THAT(Take(WithLocalSteps(-1), /*is_first=*/true), HasSubstr("sync_every: expected"));
  v1::RegisterWorkerRequest sparse = WithLocalSteps(50);
  sparse.mutable_tables(0)->clear_shape();
  sparse.mutable_tables(0)->mutable_sparse()->set_dim(2);
  job_.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAGRAD);
  EXPECT_THAT(Take(sparse, /*is_first=*/true), HasSubstr("local steps train dense tables only"));
  job_.clear_optimizer();
  job_.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  EXPECT_THAT(Take(WithLocalSteps(50), /*is_first=*/true), HasSubstr("at most momentum 0.5"));
  EXPECT_TRUE(tables_.specs().empty());
  EXPECT_FALSE(tables_.local_steps().has_value());
}

TEST_F(JobTablesTest, NoWorkerWithLocalStepsIsReplaceable) {
  ASSERT_EQ(Take(WithLocalSteps(50), /*is_first=*/true), "");
  v1::RegisterWorkerRequest replaceable = WithLocalSteps(50);
  replaceable.set_is_replaceable(true);
  EXPECT_THAT(Take(replaceable, /*is_first=*/false), HasSubstr("replaceable: expected no such"));
}

TEST_F(JobTablesTest, MuchMomentumAndLocalStepsStayUnderBsp) {
  v1::ConsistencySpec async;
  EXPECT_TRUE(tables_.CheckChange(async).ok()) << "no mode";
  async.set_mode(v1::ConsistencySpec::ASYNC);
  ASSERT_EQ(Take(WithLocalSteps(50), /*is_first=*/true), "");
  const absl::Status status = tables_.CheckChange(async);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  job_.mutable_optimizer()->set_momentum(0.5);
  EXPECT_TRUE(tables_.CheckChange(async).ok());
  JobTables without(job_, restored_);
  job_.clear_optimizer();
  EXPECT_TRUE(without.CheckChange(async).ok());
}

TEST_F(JobTablesTest, ThoseOfAnEarlierCoordinatorHaveItsLocalSteps) {
  v1::JobConstants constants;
  *constants.mutable_tables() = Worker(20).tables();
  *constants.mutable_local_steps() = WithLocalSteps(50).local_steps();
  ASSERT_TRUE(tables_.Restore(constants, /*slice_bytes=*/64).ok());
  EXPECT_EQ(Take(WithLocalSteps(50), /*is_first=*/false), "");
  EXPECT_NE(Take(WithLocalSteps(25), /*is_first=*/false), "");
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
