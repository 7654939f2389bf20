#include "deploy/cli/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(2);
constexpr absl::Duration kRateWindow = absl::Seconds(2);

}  // namespace

std::optional<TerminalSize> GetTerminalSize(int fd) {
  if (!isatty(fd)) return std::nullopt;
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return TerminalSize();
  return TerminalSize{size.ws_row, size.ws_col};
}

void ProgressDisplay::Show(absl::Duration elapsed, const v1::GetStatusReply& status) {
  const ProgressSample now = {elapsed, status};
  const ProgressSample& before = Remember(now);
  const std::string overall = OverallLine(now, before, options_.cluster);
  if (const std::optional<TerminalSize> size = options_.terminal(); size.has_value()) {
    DrawBlock(WorkerLines(now, before), overall, *size);
  } else if (elapsed >= next_plain_line_ || status.view().phase() != plain_phase_) {
    *options_.out << overall << std::endl;
    next_plain_line_ = elapsed + kPlainInterval;
    plain_phase_ = status.view().phase();
  }
}

void ProgressDisplay::Notice(const std::string& text) {
  Erase();
  *options_.out << text << std::endl;
}

void ProgressDisplay::Finish() { drawn_lines_ = 0; }

const ProgressSample& ProgressDisplay::Remember(ProgressSample sample) {
  samples_.push_back(std::move(sample));
  while (samples_.size() > 2 && samples_[1].elapsed + kRateWindow <= samples_.back().elapsed) {
    samples_.pop_front();
  }
  return samples_.front();
}

void ProgressDisplay::Erase() {
  // Up to the first line of the block, and clear all below.
  if (drawn_lines_ > 0) *options_.out << "\x1b[" << drawn_lines_ << "A\r\x1b[J";
  drawn_lines_ = 0;
}

void ProgressDisplay::DrawBlock(const std::vector<std::string>& workers, const std::string& overall,
                                const TerminalSize& size) {
  // One line is for the whole, one for the cursor, and one for how many workers are not shown.
  const size_t room = static_cast<size_t>(std::max(1, size.rows - 3));
  std::vector<std::string> lines(workers.begin(), workers.begin() + std::min(room, workers.size()));
  if (workers.size() > room) {
    lines.push_back(absl::StrCat("... and ", workers.size() - room, " more workers"));
  }
  lines.push_back(overall);
  Erase();
  // A line that wraps would not be erased.
  for (const std::string& line : lines) *options_.out << line.substr(0, size.columns - 1) << "\n";
  options_.out->flush();
  drawn_lines_ = static_cast<int>(lines.size());
}

}  // namespace capstan
