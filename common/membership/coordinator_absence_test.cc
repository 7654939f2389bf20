#include "common/membership/coordinator_absence.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/fake_clock.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What is logged meanwhile.
class LoggedLines : public google::LogSink {
 public:
  LoggedLines() { google::AddLogSink(this); }
  ~LoggedLines() override { google::RemoveLogSink(this); }

  void send(google::LogSeverity, const char*, const char*, int, const struct tm*,
            const char* message, size_t length) override {
    lines.emplace_back(message, length);
  }

  std::vector<std::string> lines;
};

class CoordinatorAbsenceTest : public ::testing::Test {
 protected:
  // A call that was refused at once.
  void Fail() { absence_.NoteFailure(clock_.Now(), clock_.Now()); }

  FakeClock clock_;
  LoggedLines log_;
  CoordinatorAbsence absence_{&clock_};
};

TEST_F(CoordinatorAbsenceTest, LastsFromTheFirstMissedAnswerToTheNextAnswer) {
  EXPECT_EQ(absence_.away(), absl::ZeroDuration());
  const absl::Time sent_at = clock_.Now();
  clock_.Advance(absl::Seconds(5));
  absence_.NoteFailure(sent_at, /*due=*/sent_at + absl::Seconds(1));
  EXPECT_EQ(absence_.away(), absl::Seconds(4));
  Fail();
  EXPECT_EQ(absence_.away(), absl::Seconds(4));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(absence_.away(), absl::Seconds(6));
  absence_.NoteAnswer();
  EXPECT_EQ(absence_.away(), absl::ZeroDuration());
}

TEST_F(CoordinatorAbsenceTest, ALateFailureOfACallFromBeforeTheAnswerIsNone) {
  const absl::Time before = clock_.Now();
  clock_.Advance(absl::Seconds(1));
  absence_.NoteAnswer();
  clock_.Advance(absl::Seconds(4));
  absence_.NoteFailure(/*sent_at=*/before, /*due=*/before);
  EXPECT_EQ(absence_.away(), absl::ZeroDuration());
}

TEST_F(CoordinatorAbsenceTest, TheLogTellsOfItOnceAndOfTheReturn) {
  absence_.BeginToWait("a:1,b:1", absl::Seconds(600));
  for (int i = 0; i < 12; ++i) {
    Fail();
    clock_.Advance(absl::Milliseconds(250));
  }
  EXPECT_THAT(log_.lines,
              ElementsAre("the coordinator at a:1,b:1 has not answered for 1.0 s: training goes "
                          "on; until it is back nobody can join, lost servers and workers are not "
                          "replaced, and no checkpoint or change of consistency begins; this "
                          "process waits for it for 600 s (--coordinator_seconds)"));
  log_.lines.clear();
  absence_.NoteAnswer();
  absence_.NoteAnswer();
  EXPECT_THAT(log_.lines, ElementsAre("the coordinator answers again after 3.0 s"));
}

TEST_F(CoordinatorAbsenceTest, AShortOneHasNoLines) {
  absence_.BeginToWait("a:1", absl::Seconds(600));
  Fail();
  clock_.Advance(absl::Milliseconds(999));
  Fail();
  absence_.NoteAnswer();
  EXPECT_THAT(log_.lines, IsEmpty());
}

TEST_F(CoordinatorAbsenceTest, OneThatIsNotWaitedForIsCountedOnly) {
  Fail();
  clock_.Advance(absl::Seconds(2));
  Fail();
  EXPECT_EQ(absence_.away(), absl::Seconds(2));
  EXPECT_EQ(absence_.last_away(), absl::InfinitePast());
  absence_.NoteAnswer();
  EXPECT_EQ(absence_.last_away(), absl::InfinitePast());
  EXPECT_THAT(log_.lines, IsEmpty());
}

TEST_F(CoordinatorAbsenceTest, KnowsWhenItWasLast) {
  EXPECT_EQ(absence_.patience(), absl::ZeroDuration());
  absence_.BeginToWait("a:1", absl::Seconds(600));
  EXPECT_EQ(absence_.patience(), absl::Seconds(600));
  EXPECT_EQ(absence_.last_away(), absl::InfinitePast());
  Fail();
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(absence_.last_away(), clock_.Now());
  absence_.NoteAnswer();
  const absl::Time back = clock_.Now();
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(absence_.last_away(), back);
}

}  // namespace
}  // namespace capstan
