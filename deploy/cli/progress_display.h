#ifndef DEPLOY_CLI_PROGRESS_DISPLAY_H_
#define DEPLOY_CLI_PROGRESS_DISPLAY_H_

#include <deque>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/cli/progress_lines.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// In characters.
struct TerminalSize {
  int rows = 24;
  int columns = 80;
};

// Size of the terminal behind a file descriptor; nothing when it is no terminal.
std::optional<TerminalSize> GetTerminalSize(int fd);

// Shows a job's progress: on a terminal as a block of lines that is redrawn in place, elsewhere as
// a plain line every two seconds and at each new phase. Not thread-safe.
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

  // `elapsed`: since the start of the job.
  void Show(absl::Duration elapsed, const v1::GetStatusReply& status);
  // A line that stays.
  void Notice(const std::string& text);
  // The last block stays, too; what is printed next comes below it.
  void Finish();

 private:
  // Sample of about two seconds ago, so that rates are steady.
  const ProgressSample& Remember(ProgressSample sample);
  void Erase();
  void DrawBlock(const std::vector<std::string>& workers, const std::string& overall,
                 const TerminalSize& size);

  const Options options_;
  std::deque<ProgressSample> samples_;
  absl::Duration next_plain_line_ = absl::ZeroDuration();
  v1::Phase plain_phase_ = v1::PHASE_UNSPECIFIED;  // of the last plain line
  int drawn_lines_ = 0;
};

}  // namespace capstan

#endif  // DEPLOY_CLI_PROGRESS_DISPLAY_H_
