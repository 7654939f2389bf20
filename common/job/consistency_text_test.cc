#include "common/job/consistency_text.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(ConsistencyTextTest, SaysModeAndStaleness) {
  v1::ConsistencySpec consistency;
  EXPECT_EQ(ConsistencyText(consistency), "bsp");
  consistency.set_mode(v1::ConsistencySpec::SSP);
  consistency.set_staleness(4);
  EXPECT_EQ(ConsistencyText(consistency), "ssp, staleness 4");
  v1::TableStaleness& own = *consistency.add_table_staleness();
  own.set_table("fc1.weight");
  own.set_staleness(2);
  EXPECT_EQ(ConsistencyText(consistency), "ssp, staleness 4 (fc1.weight 2)");
  consistency.set_mode(v1::ConsistencySpec::ASYNC);
  EXPECT_EQ(ConsistencyText(consistency), "async");
}

}  // namespace
}  // namespace capstan
