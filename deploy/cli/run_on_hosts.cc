#include "deploy/cli/run_on_hosts.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/job/load_job.h"
#include "common/net/own_address.h"
#include "common/trust/job_keys.h"
#include "common/trust/job_token.h"
#include "deploy/cli/keys/keys_command.h"
#include "deploy/cli/keys/keys_request.h"
#include "deploy/cli/run_setup.h"
#include "deploy/launch/hosts/host_list.h"
#include "deploy/launch/hosts/hosts_runner.h"
#include "deploy/launch/hosts/job_folders.h"
#include "deploy/launch/hosts/remote_hosts.h"
#include "deploy/launch/hosts/remote_programs.h"
#include "deploy/launch/restart_plan.h"
#include "deploy/launch/run_folder.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using Answers = std::vector<std::string>;

std::string RestartFlag(int most) {
  const std::string limit = most == RestartPlan::kNoLimit ? "" : absl::StrCat(":", most);
  return absl::StrCat("--restart=on_failure", limit);
}

// A job from the look at its hosts to the fetching of its logs.
class JobOnHosts {
 public:
  JobOnHosts(const RunOptions& options, v1::JobSpec job, std::string run_dir)
      : options_(options),
        list_(*options.hosts),
        job_(std::move(job)),
        run_dir_(std::move(run_dir)),
        hosts_({list_.hosts, list_.ssh, run_dir_, [this](const auto& line) { Tell(line); },
                options.take_interrupt, options.clock}),
        folders_(absl::BytesToHexString(RandomBytes(6)), &hosts_) {
    std::error_code ignored;  // a folder that is gone is on no host
    folder_ = fs::current_path(ignored).string();
  }

  absl::Status Run() {
    const auto tell = [this](const auto& line) { Tell(line); };
    ASSIGN_OR_RETURN(programs_, BringPrograms(list_, tell, &hosts_));
    RETURN_IF_ERROR(AskAddresses());
    RETURN_IF_ERROR(MakeKeys());
    absl::Status result = folders_.Send(FilesToSend());
    if (!result.ok()) return Remove(result, /*keeps_results=*/false);
    HostsRunner runner = MakeRunner();
    result = runner.Run();
    // Who has not ended may still write results.
    const absl::Status fetched =
        runner.HaveAllEnded() ? Fetch() : absl::UnavailableError("some hosts were given up");
    if (fetched.ok()) return Remove(result, /*keeps_results=*/false);
    Tell(absl::StrCat(fetched.message(), "; the results stay on the hosts, in ", folders_.Name()));
    result = Remove(result, /*keeps_results=*/true);
    const bool needs_summary = !options_.summary_json.empty();
    return result.ok() && needs_summary ? Annotate(fetched, "job succeeded") : result;
  }

 private:
  void Tell(const std::string& line) { *options_.out << line << std::endl; }

  absl::Status AskAddresses();
  absl::Status CheckAddresses() const;
  absl::Status MakeKeys();
  // As arguments of tar.
  std::string FilesToSend() const;
  std::vector<std::string> KeyFlags() const;
  // What the host's workers are.
  std::vector<std::string> WorkerFlags(int host) const;
  std::vector<std::string> FlagsFor(int host, const std::string& coordinator) const;
  std::string RunScript(int host, const std::string& coordinator) const;
  HostsRunner MakeRunner();
  absl::Status Fetch();
  // Removes the folders on the hosts, and returns `result`.
  absl::Status Remove(const absl::Status& result, bool keeps_results);

  const RunOptions& options_;
  const HostList& list_;
  const v1::JobSpec job_;
  const std::string run_dir_;
  RemoteHosts hosts_;
  JobFolders folders_;
  Answers programs_;    // of each host: its folder with the programs
  Answers addresses_;   // of each host, for the others
  std::string folder_;  // the current one, in which programs of the user's run on each host
  std::string keys_;    // the folder of keys on this machine; empty: none
};

absl::Status JobOnHosts::AskAddresses() {
  RemoteHosts::Task task;
  task.what = "find the hosts' addresses";
  task.script = [this](int host) {
    // This machine may be one of several hosts: its loopback address means nothing to the others.
    return absl::StrCat(
        "towards=${SSH_CONNECTION%% *}; case \"$towards\" in 127.*|::1) towards=;; esac; "
        "address=$(",
        ShellWord(programs_[host] + "/capstan"), " address ",
        list_.network.empty() ? "" : absl::StrCat("--network=", ShellWord(list_.network)),
        " ${towards:+--towards=\"$towards\"}) && answer \"$address\"");
  };
  ASSIGN_OR_RETURN(addresses_, hosts_.RunAll(task, hosts_.All()));
  return CheckAddresses();
}

absl::Status JobOnHosts::CheckAddresses() const {
  std::map<std::string, std::string> names;
  for (int host = 0; host < hosts_.size(); ++host) {
    const std::string& name = list_.hosts[host].name;
    const auto [other, is_new] = names.emplace(addresses_[host], name);
    if (is_new) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts: expected hosts with addresses of their own, got ", addresses_[host],
                     " for ", other->second, " and ", name,
                     "; name each machine once, and choose a --network that connects them"));
  }
  return absl::OkStatus();
}

absl::Status JobOnHosts::MakeKeys() {
  keys_ = options_.keys;
  if (!keys_.empty() || options_.is_insecure) return absl::OkStatus();
  KeysRequest request;
  request.out = keys_ = absl::StrCat(run_dir_, "/keys");
  request.hosts = addresses_;
  std::ostringstream unused;
  return KeysCommand(request, options_.clock->Now(), unused);
}

std::string JobOnHosts::FilesToSend() const {
  const auto folder = [](const std::string& path) {
    return absl::StrCat(" -C ", ShellWord(fs::absolute(path).string()), " ");
  };
  std::string files = absl::StrCat(folder(run_dir_), kEffectiveJobFile);
  if (keys_.empty()) return files;
  absl::StrAppend(&files, folder(keys_));
  // The CA's private key stays here.
  for (const char* const name : {kAuthorityFile, kCertificateFile, kPrivateKeyFile, kTokenFile}) {
    std::error_code ignored;
    if (fs::exists(fs::path(keys_) / name, ignored)) absl::StrAppend(&files, " ", name);
  }
  return files;
}

std::vector<std::string> JobOnHosts::KeyFlags() const {
  std::vector<std::string> flags;
  if (!keys_.empty()) flags.push_back("--keys=.");
  if (options_.is_insecure) flags.push_back("--insecure");
  return flags;
}

std::vector<std::string> JobOnHosts::WorkerFlags(int host) const {
  int first_rank = 0;
  for (int before = 0; before < host; ++before) first_rank += list_.hosts[before].num_workers;
  const std::string rank = absl::StrCat("--first_rank=", first_rank);
  if (options_.program.command.empty()) {
    return {absl::StrCat("--device=", absl::StrJoin(options_.devices, ",")), rank};
  }
  const std::string missing =
      absl::StrCat("expected the folder ", folder_, ", in which capstan run was started, on this ",
                   "host, too; make it there, or share it");
  std::vector<std::string> flags = {
      absl::StrCat("--worker_command=cd ", ShellWord(folder_), " || { echo ", ShellWord(missing),
                   " >&2; exit 1; }; ", options_.program.command),
      rank};
  if (const int port = options_.program.master_port; port != 0) {
    flags.push_back(absl::StrCat("--master_port=", port));
  }
  return flags;
}

std::vector<std::string> JobOnHosts::FlagsFor(int host, const std::string& coordinator) const {
  const std::string& address = addresses_[host];
  const bool is_ipv6 = address.find(':') != address.npos;
  std::vector<std::string> flags = KeyFlags();
  flags.insert(flags.end(), {absl::StrCat("--nnodes=", hosts_.size()),
                             absl::StrCat("--servers_per_node=", list_.servers_per_host),
                             absl::StrCat("--workers_per_node=", list_.hosts[host].num_workers),
                             absl::StrCat("--num_servers=", list_.num_servers()),
                             absl::StrCat("--num_workers=", list_.num_workers()),
                             absl::StrCat("--network=", address, is_ipv6 ? "/128" : "/32"),
                             absl::StrCat("--run_dir=", JobFolders::kResults), "--end_with_stdin"});
  const std::vector<std::string> of_workers = WorkerFlags(host);
  flags.insert(flags.end(), of_workers.begin(), of_workers.end());
  if (options_.has_trace) flags.push_back("--trace");
  if (options_.most_restarts > 0) flags.push_back(RestartFlag(options_.most_restarts));
  if (!options_.replaces_servers) flags.push_back(absl::StrCat("--restart=", kNeverRestart));
  if (coordinator.empty()) {
    flags.push_back(absl::StrCat("--rendezvous=", HostAndPort(address, 0)));
    flags.push_back(absl::StrCat("--job=", kEffectiveJobFile));
    if (!options_.http_listen.empty()) {
      flags.push_back(absl::StrCat("--http_listen=", options_.http_listen));
    }
    if (options_.is_quiet) flags.push_back("--quiet");
    return flags;
  }
  // The others have the job from the coordinator, but for how long they look for it.
  const v1::MembershipSpec& membership = job_.membership();
  flags.push_back(absl::StrCat("--rendezvous=", coordinator));
  // They would show the same progress as the first host.
  flags.push_back("--quiet");
  flags.push_back(absl::StrCat("--registration_seconds=", membership.registration_seconds()));
  flags.push_back(absl::StrCat("--rpc_deadline_seconds=", membership.rpc_deadline_seconds()));
  if (membership.has_allow_other_bits()) {
    const char* const allows = membership.allow_other_bits() ? "true" : "false";
    flags.push_back(absl::StrCat("--allow_other_bits=", allows));
  }
  return flags;
}

std::string JobOnHosts::RunScript(int host, const std::string& coordinator) const {
  std::string script =
      absl::StrCat(folders_.Enter(host), "exec ", ShellWord(programs_[host] + "/capstan"), " run");
  for (const std::string& flag : FlagsFor(host, coordinator)) {
    absl::StrAppend(&script, " ", ShellWord(flag));
  }
  return script;
}

HostsRunner JobOnHosts::MakeRunner() {
  HostsRunner::Options runner;
  runner.hosts = &hosts_;
  runner.script = [this](int host, const auto& coordinator) {
    return RunScript(host, coordinator);
  };
  runner.print = [this](const auto& line) { Tell(line); };
  runner.take_interrupt = options_.take_interrupt;
  runner.clock = options_.clock;
  runner.runs_programs = !options_.program.command.empty();
  return HostsRunner(runner);
}

absl::Status JobOnHosts::Fetch() {
  std::vector<JobFolders::Results> results = {{JobFolders::kResults, run_dir_}};
  for (int host = 1; host < hosts_.size(); ++host) {
    // As the command names it there, so that hosts may share a folder.
    const std::string& address = addresses_[host];
    results.push_back({absl::StrCat(JobFolders::kResults, "/", address),
                       absl::StrCat(run_dir_, "/", list_.hosts[host].name)});
  }
  return folders_.Fetch(results);
}

absl::Status JobOnHosts::Remove(const absl::Status& result, bool keeps_results) {
  const absl::Status removed = folders_.Remove(keeps_results);
  if (!removed.ok()) Tell(absl::StrCat(removed.message(), ": ", folders_.Name()));
  return result;
}

// The job with the numbers of the hosts' members.
absl::StatusOr<v1::JobSpec> JobOf(const RunOptions& options) {
  const HostList& list = *options.hosts;
  std::vector<std::string> flags = {absl::StrCat("--num_servers=", list.num_servers()),
                                    absl::StrCat("--num_workers=", list.num_workers())};
  const std::vector<std::string> given = JobFlagsWithDefaults(options);
  flags.insert(flags.end(), given.begin(), given.end());
  ASSIGN_OR_RETURN(v1::JobSpec job, JobOfRun(options, flags));
  if (job.cluster().num_servers() != static_cast<uint32_t>(list.num_servers()) ||
      job.cluster().num_workers() != static_cast<uint32_t>(list.num_workers())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--num_servers, --num_workers: expected the hosts' ", list.num_servers(), " servers and ",
        list.num_workers(), " workers, got others; leave them out, and use --servers_per_node, ",
        "--workers_per_node or --hosts=HOST:WORKERS"));
  }
  return job;
}

// Removes what the hosts of an earlier run have left in the folder. Their logs name them.
absl::Status ForgetHosts(const std::string& run_dir) {
  std::error_code error;
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_dir, error)) {
    const std::string file = entry.path().filename();
    absl::string_view name = file;
    if (absl::ConsumeSuffix(&name, kSshLogEnding)) names.emplace_back(name);
  }
  for (const std::string& name : names) {
    fs::remove(absl::StrCat(run_dir, "/", name, kSshLogEnding), error);
    const std::string folder = absl::StrCat(run_dir, "/", name);
    if (!fs::is_directory(folder, error)) continue;
    RETURN_IF_ERROR(PrepareRunFolder(folder, /*job_file=*/"").status());
    fs::remove(absl::StrCat(folder, "/", kRunLockFile), error);
    fs::remove(folder, error);  // if it is empty
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunOnHosts(const RunOptions& options) {
  ASSIGN_OR_RETURN(const v1::JobSpec job, JobOf(options));
  RETURN_IF_ERROR(CheckSummaryPath(options.summary_json));
  // Finds wrong keys before anything starts.
  RETURN_IF_ERROR(OpenRunSecurity(options).status());
  const std::string run_dir = options.run_dir.empty()
                                  ? DefaultRunFolder(job.name(), options.clock->Now())
                                  : options.run_dir;
  ASSIGN_OR_RETURN(const OpenFile lock, PrepareFolders(options, run_dir));
  RETURN_IF_ERROR(ForgetHosts(run_dir));
  RETURN_IF_ERROR(SaveJobFile(job, absl::StrCat(run_dir, "/", kEffectiveJobFile)));
  *options.out << "job " << job.name() << " on " << options.hosts->hosts.size()
               << " hosts: " << options.hosts->num_servers() << " servers, "
               << options.hosts->num_workers() << " workers; logs in " << run_dir << std::endl;
  RETURN_IF_ERROR(EndOfRun(options, JobOnHosts(options, job, run_dir).Run(), run_dir));
  if (options.has_trace) *options.out << "traces: capstan trace " << run_dir << std::endl;
  return Annotate(CopySummary(options, absl::StrCat(run_dir, "/", kSummaryFile)), "job succeeded");
}

}  // namespace capstan
