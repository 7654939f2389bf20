#include "deploy/launch/progress_display.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(2);
constexpr absl::Duration kBlockInterval = absl::Milliseconds(500);
constexpr absl::Duration kRateWindow = absl::Seconds(2);

}  // namespace

void ProgressDisplay::Show(absl::Duration elapsed, const v1::GetStatusReply& status) {
  if (options_.is_quiet) return;
  Remember({elapsed, status});
  is_drawn_ = false;
  const v1::Phase phase = status.view().phase();
  if (elapsed >= next_drawing_ || phase != drawn_phase_) Draw();
}

void ProgressDisplay::Notice(const std::string& text) {
  Erase();
  *options_.out << text << std::endl;
}

void ProgressDisplay::Finish() {
  // Nothing changes after a final phase.
  const bool is_final = drawn_phase_ == v1::DONE || drawn_phase_ == v1::FAILED;
  if (!is_drawn_ && !is_final && !samples_.empty()) Draw();
  is_drawn_ = true;
  drawn_lines_ = 0;
}

void ProgressDisplay::Remember(ProgressSample sample) {
  samples_.push_back(std::move(sample));
  while (samples_.size() > 2 && samples_[1].elapsed + kRateWindow <= samples_.back().elapsed) {
    samples_.pop_front();
  }
}

void ProgressDisplay::Draw() {
  const ProgressSample& now = samples_.back();
  const std::string overall = OverallLine(now, samples_.front(), options_.cluster);
  const std::vector<std::string> workers = WorkerLines(now, samples_.front());
  const std::string codecs = CodecLine(now.status);
  const std::optional<TerminalSize> size = options_.terminal();
  if (size.has_value()) {
    DrawBlock(workers, codecs, overall, *size);
  } else {
    *options_.out << overall << "\n";
    if (!codecs.empty()) *options_.out << "        " << codecs << "\n";
    for (const std::string& worker : workers) *options_.out << "        " << worker << "\n";
    options_.out->flush();
  }
  next_drawing_ = now.elapsed + (size.has_value() ? kBlockInterval : kPlainInterval);
  drawn_phase_ = now.status.view().phase();
  is_drawn_ = true;
}

void ProgressDisplay::Erase() {
  // Moves to the first line of the block, and clears all lines from there.
  if (drawn_lines_ == 0) return;
  *options_.out << "\x1b[" << drawn_lines_ << "A\r\x1b[J";
  drawn_lines_ = 0;
  is_drawn_ = false;
}

void ProgressDisplay::DrawBlock(const std::vector<std::string>& workers, const std::string& codecs,
                                const std::string& overall, const TerminalSize& size) {
  // Three more lines: the job, the number of hidden workers, and the cursor. Codecs have a fourth.
  const int others = codecs.empty() ? 3 : 4;
  const size_t room = static_cast<size_t>(std::max(1, size.rows - others));
  std::vector<std::string> lines(workers.begin(), workers.begin() + std::min(room, workers.size()));
  if (workers.size() > room) {
    lines.push_back(absl::StrCat("... and ", workers.size() - room, " more workers"));
  }
  if (!codecs.empty()) lines.push_back(codecs);
  lines.push_back(overall);
  Erase();
  // Erase counts lines, so none may wrap.
  for (const std::string& line : lines) *options_.out << line.substr(0, size.columns - 1) << "\n";
  options_.out->flush();
  drawn_lines_ = static_cast<int>(lines.size());
}

}  // namespace capstan
