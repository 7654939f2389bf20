#include "common/history/contract_of_job.h"

#include <gtest/gtest.h>

#include "common/history/contract.h"

namespace capstan {
namespace {

TEST(ContractOfJobTest, SaysWhatTheJobFileSays) {
  v1::JobSpec job;
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  job.mutable_consistency()->set_staleness(3);
  ASSERT_TRUE(Contract::Check({ContractOfJob(job)}).ok());
  const Contract::Promise promise = Contract({ContractOfJob(job)}).Of(TableId(4), Step(9));
  EXPECT_EQ(promise.mode, v1::ContractRecord::SSP);
  EXPECT_EQ(promise.staleness, 3);
  EXPECT_EQ(ContractOfJob(v1::JobSpec()).mode(), v1::ContractRecord::BSP) << "the default";
  job.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  EXPECT_EQ(ContractOfJob(job).mode(), v1::ContractRecord::ASYNC);
}

}  // namespace
}  // namespace capstan
