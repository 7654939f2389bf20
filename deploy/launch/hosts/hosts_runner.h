#ifndef DEPLOY_LAUNCH_HOSTS_HOSTS_RUNNER_H_
#define DEPLOY_LAUNCH_HOSTS_HOSTS_RUNNER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "deploy/launch/child_process.h"
#include "deploy/launch/hosts/remote_hosts.h"

namespace capstan {

// Runs `capstan run --rendezvous` on each of several hosts, and shows what they print, each line
// with its host. The first host coordinates. Borrows everything. Not thread-safe.
class HostsRunner {
 public:
  struct Options {
    // Required.
    RemoteHosts* hosts = nullptr;
    // The script for a host. It ends with its standard input. `coordinator`: host:port, empty for
    // the first host, which prints it after kMeetingNotice (rendezvous.h). Required.
    std::function<std::string(int host, const std::string& coordinator)> script;
    // Gets the lines. Required.
    std::function<void(const std::string&)> print;
    // True once for each interrupt from the terminal. Required.
    std::function<bool()> take_interrupt;
    // Required.
    Clock* clock = nullptr;
    // The workers are programs of the user's: when the job is done, they may take as long as they
    // like, and the failure of one is that of the run.
    bool runs_programs = false;
    absl::Duration poll_interval = absl::Milliseconds(20);
    // When the first host has ended, all have this long to end. Then their inputs end.
    absl::Duration patience_after_first = absl::Seconds(3);
    // The same when another host has failed: the coordinator has to notice.
    absl::Duration patience_after_failure = absl::Seconds(15);
    // After that, and after an interrupt, they have this long. Then their connections are closed.
    absl::Duration end_timeout = absl::Seconds(10);
  };

  explicit HostsRunner(Options options) : options_(std::move(options)) {}

  // Returns when all hosts have ended: OK when the first one has ended well, CANCELLED after an
  // interrupt, else why the job failed.
  absl::Status Run();

  // False after Run: some hosts were given up, and may still write results.
  bool HaveAllEnded() const;

 private:
  struct Member {
    std::unique_ptr<ChildProcess> process;
    LineFollower output;
    std::optional<ChildExit> exit;
  };

  absl::Status StartHost(int host);
  // Starts the first host, and the others when it coordinates.
  absl::Status StartNext();
  void LookAtHosts();
  void RememberFailure(int host);
  // False: there were none.
  bool ShowLines(int host, bool at_end);
  bool HasPrintedTooMuch(const Member& member) const;
  // Tells the hosts now and then that this machine is there.
  void GiveSignOfLife();
  // Tells all to end.
  void EndInputs();
  // The earliest end counts.
  void EndWithin(absl::Duration time);
  // False: all have ended, or their time is over.
  bool KeepsWaiting();
  absl::Status Result() const;

  const Options options_;
  std::vector<Member> members_;  // those that have started
  absl::Time start_;
  absl::Time next_sign_of_life_ = absl::InfinitePast();
  std::string coordinator_;             // host:port; empty: not yet known
  std::string first_failure_;           // of a host; empty: none
  std::string late_failure_;            // of a host after the first one's good end; empty: none
  std::optional<absl::Time> deadline_;  // for the end of all
  bool was_interrupted_ = false;
  bool inputs_have_ended_ = false;
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_HOSTS_HOSTS_RUNNER_H_
