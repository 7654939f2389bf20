#include "tests/benchmark/coordinator/seen_views.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"

namespace capstan {
namespace {

v1::JobView ViewWithLostServers(int lost) {
  v1::JobView view;
  view.set_phase(v1::TRAINING);
  for (int server = 0; server < 3; ++server) view.add_servers()->set_is_live(server >= lost);
  view.add_copies()->set_is_whole(true);
  view.add_copies()->set_is_whole(lost == 0);
  return view;
}

bool HasLoss(const SeenViews::Seen& seen) { return seen.servers_lost >= 1; }

TEST(SeenViewsTest, ReadsWhatAViewSays) {
  FakeClock clock;
  SeenViews views(/*num_members=*/1, &clock);
  views.OnView(0, ViewWithLostServers(0));
  EXPECT_TRUE(views
                  .AwaitAll(
                      [](const SeenViews::Seen& seen) {
                        return seen.phase == v1::TRAINING && seen.servers_lost == 0 &&
                               seen.copies_are_whole;
                      },
                      absl::ZeroDuration())
                  .ok());
  views.OnView(0, ViewWithLostServers(2));
  EXPECT_TRUE(views
                  .AwaitAll(
                      [](const SeenViews::Seen& seen) {
                        return seen.servers_lost == 2 && !seen.copies_are_whole;
                      },
                      absl::ZeroDuration())
                  .ok());
}

TEST(SeenViewsTest, TheTimeIsThatOfTheLastMember) {
  FakeClock clock;
  const absl::Time begin = clock.Now();
  SeenViews views(/*num_members=*/2, &clock);
  absl::StatusOr<absl::Time> known_at;
  std::thread waiter([&] { known_at = views.AwaitAll(HasLoss, absl::Hours(1)); });
  views.OnView(0, ViewWithLostServers(1));
  clock.Advance(absl::Seconds(2));
  views.OnView(1, ViewWithLostServers(1));
  waiter.join();
  ASSERT_TRUE(known_at.ok()) << known_at.status();
  EXPECT_EQ(*known_at, begin + absl::Seconds(2));
}

TEST(SeenViewsTest, NobodyWaitsForAMemberThatHasLeft) {
  FakeClock clock;
  SeenViews views(/*num_members=*/2, &clock);
  views.OnView(0, ViewWithLostServers(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(views.AwaitAll(HasLoss, absl::ZeroDuration()).status()));
  views.Leave(1);
  EXPECT_TRUE(views.AwaitAll(HasLoss, absl::ZeroDuration()).ok());
}

TEST(SeenViewsTest, TheErrorOfAMemberEndsTheWait) {
  FakeClock clock;
  SeenViews views(/*num_members=*/2, &clock);
  views.OnLost(1, absl::AbortedError("the job has failed"));
  EXPECT_EQ(views.AwaitAll(HasLoss, absl::Hours(1)).status(),
            absl::AbortedError("member 1: the job has failed"));
}

}  // namespace
}  // namespace capstan
