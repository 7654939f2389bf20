#include "server/coordinator/entering_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

v1::NextStep Next(uint32_t worker, uint64_t incarnation, int64_t step) {
  v1::NextStep next;
  next.set_worker(worker);
  next.set_incarnation(incarnation);
  next.set_step(step);
  return next;
}

TEST(EnteringWorkersTest, AWorkerBeginsBeyondWhatAnyServerHasOfItsPlace) {
  EnteringWorkers entering;
  entering.Begin(3, Incarnation(7));
  EXPECT_TRUE(entering.Contains(3));
  entering.Report(0, Next(3, 7, 5));
  entering.Report(0, Next(3, 7, 5));
  EXPECT_THAT(entering.TakeReady(/*num_servers=*/2), IsEmpty());
  entering.Report(1, Next(3, 7, 4));
  EXPECT_THAT(entering.TakeReady(/*num_servers=*/2), ElementsAre(Pair(3, Step(5))));
  EXPECT_FALSE(entering.Contains(3));
}

TEST(EnteringWorkersTest, ReportsOfAnotherIncarnationDoNotCount) {
  EnteringWorkers entering;
  entering.Begin(3, Incarnation(7));
  entering.Report(0, Next(3, 7, 5));
  entering.Forget(3);
  entering.Begin(3, Incarnation(8));
  entering.Report(0, Next(3, 7, 9));
  entering.Report(1, Next(4, 8, 9));
  EXPECT_THAT(entering.TakeReady(/*num_servers=*/1), IsEmpty());
  entering.Report(0, Next(3, 8, 6));
  EXPECT_THAT(entering.TakeReady(/*num_servers=*/1), ElementsAre(Pair(3, Step(6))));
}

}  // namespace
}  // namespace capstan
