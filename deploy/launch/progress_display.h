#ifndef DEPLOY_LAUNCH_PROGRESS_DISPLAY_H_
#define DEPLOY_LAUNCH_PROGRESS_DISPLAY_H_

#include <deque>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/cli/text/progress_lines.h"
#include "deploy/launch/terminal.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// Shows the progress of a job and of each worker. On a terminal, a block of lines is redrawn in
// place twice a second. Elsewhere, plain lines are printed every two seconds. A new phase is shown
// at once. Not thread-safe.
class ProgressDisplay {
 public:
  struct Options {
    // Must outlive the display. Required.
    std::ostream* out = nullptr;
    // Asked before each drawing. Nothing: `out` is no terminal. Required.
    std::function<std::optional<TerminalSize>()> terminal;
    // The job's numbers of members.
    v1::ClusterSpec cluster;
    // Only notices are printed.
    bool is_quiet = false;
  };

  explicit ProgressDisplay(Options options) : options_(std::move(options)) {}

  // `elapsed`: since the start of the job. Not every call draws.
  void Show(absl::Duration elapsed, const v1::GetStatusReply& status);
  // Prints a line above later progress.
  void Notice(const std::string& text);
  // Draws the last status if need be. Later output comes below it.
  void Finish();

 private:
  void Remember(ProgressSample sample);
  void Draw();
  void Erase();
  // `codecs` may be empty.
  void DrawBlock(const std::vector<std::string>& workers, const std::string& codecs,
                 const std::string& overall, const TerminalSize& size);

  const Options options_;
  std::deque<ProgressSample> samples_;  // of about two seconds, for steady rates
  absl::Duration next_drawing_ = absl::ZeroDuration();
  v1::Phase drawn_phase_ = v1::PHASE_UNSPECIFIED;
  bool is_drawn_ = false;  // of the last sample
  int drawn_lines_ = 0;    // of the block
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_PROGRESS_DISPLAY_H_
