#include "deploy/cli/read_run_options.h"

#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "common/base/host_port.h"
#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "deploy/cli/cli_help.h"
#include "deploy/cli/command_flags.h"
#include "deploy/cli/command_line.h"
#include "deploy/launch/hosts/host_list.h"
#include "deploy/launch/rendezvous.h"
#include "deploy/launch/worker_program.h"
#include "worker/engine/device_name.h"

namespace capstan {
namespace {

using Flags = std::map<std::string, std::string>;

// The devices in a list with commas.
absl::StatusOr<std::vector<std::string>> ReadDevices(const std::string& list) {
  std::vector<std::string> devices = absl::StrSplit(list, ',');
  for (const std::string& device : devices) RETURN_IF_ERROR(ParseDeviceName(device).status());
  return devices;
}

}  // namespace

absl::StatusOr<RunLine> ReadRunOptions(const std::vector<std::string>& args,
                                       const std::string& own_path) {
  // The job flags are checked now, and applied when the job file has been read.
  std::vector<std::string> rest = args;
  v1::JobSpec unused;
  RETURN_IF_ERROR(ApplyJobFlags(&rest, &unused));
  ASSIGN_OR_RETURN(Flags flags, ParseCommandFlags(rest, RunFlags(), /*takes_job_flags=*/true));
  RunLine line;
  RunOptions& options = line.options;
  ASSIGN_OR_RETURN(options.devices,
                   ReadDevices(flags.count("device") > 0 ? flags["device"] : "cpu"));
  ASSIGN_OR_RETURN(options.program, ReadWorkerProgram(flags));
  const int num_devices = static_cast<int>(options.devices.size());
  ASSIGN_OR_RETURN(options.hosts, ReadHostList(flags, num_devices, own_path));
  ASSIGN_OR_RETURN(options.most_restarts, ReadMostRestarts(flags["restart"]));
  options.replaces_servers = flags["restart"] != kNeverRestart;
  options.http_listen = flags["http_listen"];
  if (!options.http_listen.empty()) {
    RETURN_IF_ERROR(ParseHostPort("--http_listen", options.http_listen, /*least_port=*/0).status());
  }
  ASSIGN_OR_RETURN(options.rendezvous, ReadRendezvous(flags, num_devices));
  options.job_file = flags["job"];
  options.job_flags = args;
  options.run_dir = flags["run_dir"];
  options.summary_json = flags["summary_json"];
  options.record_history = flags["record_history"];
  options.has_trace = flags["trace"] == "true";
  options.keys = flags["keys"];
  options.is_insecure = flags["insecure"] == "true";
  options.is_quiet = flags["quiet"] == "true";
  options.own_path = own_path;
  line.ends_with_stdin = flags["end_with_stdin"] == "true";
  return line;
}

}  // namespace capstan
