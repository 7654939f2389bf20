#include "deploy/launch/progress_display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_split.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

ProgressDisplay MakeDisplay(std::ostream* out, std::optional<TerminalSize> size) {
  return ProgressDisplay({out, [size] { return size; }, v1::ClusterSpec()});
}

v1::GetStatusReply Status(int num_workers) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  for (int i = 0; i < num_workers; ++i) {
    v1::WorkerInfo* worker = status.mutable_view()->add_workers();
    worker->set_worker(i);
    worker->set_is_live(true);
  }
  return status;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST(ProgressDisplayTest, PlainOutputIsTheJobAndItsWorkersEveryTwoSecondsWithoutEscapes) {
  std::ostringstream out;
  ProgressDisplay display = MakeDisplay(&out, std::nullopt);
  for (int half_seconds = 0; half_seconds <= 10; ++half_seconds) {
    display.Show(absl::Seconds(0.5 * half_seconds), Status(/*num_workers=*/2));
  }
  const std::vector<std::string> lines = Lines(out.str());
  ASSERT_THAT(lines, SizeIs(9));
  EXPECT_THAT(lines[3], HasSubstr("0:02  2/"));
  EXPECT_THAT(lines[5], HasSubstr("        worker-1 "));
  EXPECT_EQ(out.str().find('\x1b'), std::string::npos);
}

TEST(ProgressDisplayTest, LastSampleIsDrawnAtTheEndAndOnlyOnce) {
  std::ostringstream out;
  ProgressDisplay display = MakeDisplay(&out, std::nullopt);
  display.Show(absl::Seconds(0), Status(/*num_workers=*/0));
  v1::GetStatusReply status = Status(/*num_workers=*/1);
  status.add_progress()->set_steps_done(7);
  display.Show(absl::Seconds(1), status);
  EXPECT_THAT(Lines(out.str()), SizeIs(1));
  display.Finish();
  EXPECT_THAT(out.str(), HasSubstr("step     7\n"));
  display.Finish();
  EXPECT_THAT(Lines(out.str()), SizeIs(3));
}

TEST(ProgressDisplayTest, CodecsHaveALine) {
  v1::GetStatusReply status = Status(/*num_workers=*/2);
  status.mutable_codec()->set_push("int8");
  status.add_progress()->set_bytes_pushed(100);
  status.mutable_progress(0)->set_float_bytes_pushed(390);
  std::ostringstream plain;
  MakeDisplay(&plain, std::nullopt).Show(absl::Seconds(0), status);
  ASSERT_THAT(Lines(plain.str()), SizeIs(4));
  EXPECT_EQ(Lines(plain.str())[1], "        pushed 100 B (3.9x smaller), codecs 0.0 s");
  std::ostringstream block;
  TerminalSize size;
  size.rows = 5;
  MakeDisplay(&block, size).Show(absl::Seconds(0), status);
  ASSERT_THAT(Lines(block.str()), SizeIs(4));
  EXPECT_EQ(Lines(block.str())[1], "... and 1 more workers");
  EXPECT_EQ(Lines(block.str())[2], "pushed 100 B (3.9x smaller), codecs 0.0 s");
}

TEST(ProgressDisplayTest, DisplayThatWasShownNothingDrawsNothing) {
  std::ostringstream out;
  MakeDisplay(&out, std::nullopt).Finish();
  EXPECT_EQ(out.str(), "");
}

TEST(ProgressDisplayTest, PlainOutputHasLinesForEachNewPhase) {
  std::ostringstream out;
  ProgressDisplay display = MakeDisplay(&out, std::nullopt);
  v1::GetStatusReply status = Status(/*num_workers=*/1);
  display.Show(absl::Seconds(0), status);
  status.mutable_view()->set_phase(v1::EVALUATING);
  display.Show(absl::Seconds(0.5), status);
  display.Show(absl::Seconds(1), status);
  EXPECT_THAT(Lines(out.str()), SizeIs(4));
}

TEST(ProgressDisplayTest, TerminalBlockIsRedrawnInPlace) {
  std::ostringstream out;
  ProgressDisplay display = MakeDisplay(&out, TerminalSize());
  display.Show(absl::Seconds(0), Status(/*num_workers=*/2));
  EXPECT_THAT(Lines(out.str()), SizeIs(3));
  out.str("");
  display.Show(absl::Seconds(1), Status(/*num_workers=*/2));
  EXPECT_THAT(out.str(), StartsWith("\x1b[3A\r\x1b[J"));
}

TEST(ProgressDisplayTest, TerminalBlockIsRedrawnAtMostTwiceASecond) {
  std::ostringstream out;
  ProgressDisplay display = MakeDisplay(&out, TerminalSize());
  display.Show(absl::Seconds(0), Status(/*num_workers=*/1));
  out.str("");
  display.Show(absl::Seconds(0.4), Status(/*num_workers=*/1));
  EXPECT_EQ(out.str(), "");
  display.Show(absl::Seconds(0.5), Status(/*num_workers=*/1));
  EXPECT_THAT(Lines(out.str()), SizeIs(2));
}

TEST(ProgressDisplayTest, NoticeReplacesTheBlockAndStays) {
  std::ostringstream out;
  ProgressDisplay display = MakeDisplay(&out, TerminalSize());
  display.Show(absl::Seconds(0), Status(/*num_workers=*/1));
  out.str("");
  display.Notice("worker-0 has ended");
  EXPECT_EQ(out.str(), "\x1b[2A\r\x1b[Jworker-0 has ended\n");
  out.str("");
  display.Show(absl::Seconds(1), Status(/*num_workers=*/1));
  EXPECT_EQ(out.str().find('\x1b'), std::string::npos);
}

TEST(ProgressDisplayTest, BlockFitsIntoASmallTerminal) {
  std::ostringstream out;
  ProgressDisplay display = MakeDisplay(&out, TerminalSize{/*rows=*/6, /*columns=*/30});
  display.Show(absl::Seconds(0), Status(/*num_workers=*/9));
  const std::vector<std::string> lines = Lines(out.str());
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_THAT(lines[3], HasSubstr("and 6 more workers"));
  for (const std::string& line : lines) EXPECT_LT(line.size(), 30u) << line;
}

TEST(ProgressDisplayTest, FinishedBlockIsNotErased) {
  std::ostringstream out;
  ProgressDisplay display = MakeDisplay(&out, TerminalSize());
  display.Show(absl::Seconds(0), Status(/*num_workers=*/1));
  display.Finish();
  out.str("");
  display.Notice("done");
  EXPECT_EQ(out.str(), "done\n");
}

}  // namespace
}  // namespace capstan
