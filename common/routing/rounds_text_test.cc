#include "common/routing/rounds_text.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

v1::GetStatusReply Status() {
  v1::GetStatusReply status;
  for (int worker = 0; worker < 2; ++worker) {
    status.mutable_view()->add_workers()->set_is_live(true);
    status.add_progress()->set_local_steps(800);
  }
  status.mutable_view()->mutable_local_steps()->set_sync_every(50);
  status.mutable_view()->mutable_local_steps()->set_fragments(1);
  return status;
}

TEST(RoundsTextTest, AJobWithoutLocalStepsHasNone) {
  EXPECT_EQ(RoundsText(v1::GetStatusReply()), "");
}

TEST(RoundsTextTest, TheLocalStepsAreThoseOfAllWorkers) {
  v1::GetStatusReply status = Status();
  EXPECT_EQ(RoundsText(status), "50 local steps each; 1600 so far");
  status.add_replaced_workers()->set_local_steps(7);
  status.mutable_view()->mutable_local_steps()->set_fragments(4);
  EXPECT_EQ(RoundsText(status), "50 local steps each, in 4 fragments; 1607 so far");
}

TEST(RoundsTextTest, ARoundMayHaveATime) {
  v1::GetStatusReply status = Status();
  status.mutable_view()->mutable_local_steps()->set_sync_every(0);
  status.mutable_view()->mutable_local_steps()->set_round_seconds(2.5);
  EXPECT_EQ(RoundsText(status), "2.5 s of local steps each; 1600 so far");
}

TEST(RoundsTextTest, TheDriftIsTheMeanOverLiveWorkers) {
  v1::GetStatusReply status = Status();
  status.mutable_progress(0)->set_drift(0.02);
  EXPECT_EQ(RoundsText(status), "50 local steps each; 1600 so far, drift 0.02");
  status.mutable_progress(1)->set_drift(0.042);
  EXPECT_EQ(RoundsText(status), "50 local steps each; 1600 so far, drift 0.031");
  status.mutable_view()->mutable_workers(1)->set_is_live(false);
  EXPECT_EQ(RoundsText(status), "50 local steps each; 1600 so far, drift 0.02");
}

}  // namespace
}  // namespace capstan
