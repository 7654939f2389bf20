#ifndef DEPLOY_CLI_JOB_PROGRESS_DISPLAY_H_
#define DEPLOY_CLI_JOB_PROGRESS_DISPLAY_H_

#include <deque>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/cli/job/terminal.h"
#include "deploy/cli/text/progress_lines.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// Shows a job's progress, the whole and each worker: on a terminal as a block of lines that is
// redrawn in place twice a second, elsewhere as plain lines every two seconds; at each new phase,
// too. Not thread-safe.
class ProgressDisplay {
 public:
  struct Options {
    // Must outlive the display. Required.
    std::ostream* out = nullptr;
    // Asked before each drawing; nothing means that `out` is no terminal. Required.
    std::function<std::optional<TerminalSize>()> terminal;
    // How many members the job has.
    v1::ClusterSpec cluster;
  };

  explicit ProgressDisplay(Options options) : options_(std::move(options)) {}

  // `elapsed`: since the start of the job. May be called more often than is drawn.
  void Show(absl::Duration elapsed, const v1::GetStatusReply& status);
  // A line that stays.
  void Notice(const std::string& text);
  // Draws what was shown last, which stays, too; what is printed next comes below it.
  void Finish();

 private:
  void Remember(ProgressSample sample);
  void Draw();
  void Erase();
  void DrawBlock(const std::vector<std::string>& workers, const std::string& overall,
                 const TerminalSize& size);

  const Options options_;
  std::deque<ProgressSample> samples_;  // of about two seconds, so that rates are steady
  absl::Duration next_drawing_ = absl::ZeroDuration();
  v1::Phase drawn_phase_ = v1::PHASE_UNSPECIFIED;
  bool is_drawn_ = false;  // the last sample
  int drawn_lines_ = 0;    // of the block
};

}  // namespace capstan

#endif  // DEPLOY_CLI_JOB_PROGRESS_DISPLAY_H_
