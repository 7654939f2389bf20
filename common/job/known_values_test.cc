#include "common/job/known_values.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <string>

#include "common/job/validate_job.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// The message, as if a peer had sent it with `number` in the enum field `field`.
template <typename Message>
Message WithNumber(int field, uint64_t number) {
  Message message;
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(field, number);
  Message parsed;
  EXPECT_TRUE(parsed.ParseFromString(message.SerializeAsString()));
  return parsed;
}

TEST(KnownValuesTest, KnownNumbersAreAccepted) {
  v1::JobSpec job;
  *job.mutable_optimizer() =
      WithNumber<v1::OptimizerSpec>(v1::OptimizerSpec::kTypeFieldNumber, v1::OptimizerSpec::ADAM);
  EXPECT_EQ(job.optimizer().type(), v1::OptimizerSpec::ADAM);
  EXPECT_TRUE(CheckEnumsAreKnown(job).ok());
}

TEST(KnownValuesTest, ANumberWithoutANameIsNotTheDefault) {
  v1::JobSpec job;
  *job.mutable_optimizer() = WithNumber<v1::OptimizerSpec>(v1::OptimizerSpec::kTypeFieldNumber, 99);
  const std::string error(CheckEnumsAreKnown(job).message());
  EXPECT_THAT(error, HasSubstr("optimizer.type: expected one of sgd, "));
  EXPECT_THAT(error, HasSubstr(", got 99; "));
  EXPECT_EQ(ValidateJob(job).message(), error);
}

TEST(KnownValuesTest, AChangeOfTheConsistencyIsCheckedToo) {
  const auto consistency =
      WithNumber<v1::ConsistencySpec>(v1::ConsistencySpec::kModeFieldNumber, 99);
  EXPECT_THAT(std::string(ValidateConsistency(consistency).message()),
              HasSubstr("mode: expected one of bsp, ssp, async, got 99"));
}

TEST(KnownValuesTest, OtherFieldsOfANewerVersionAreLeftAlone) {
  EXPECT_TRUE(CheckEnumsAreKnown(WithNumber<v1::JobSpec>(/*field=*/9999, 1)).ok());
}

}  // namespace
}  // namespace capstan
