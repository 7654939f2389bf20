#include "deploy/launch/hosts/job_folders.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/trust/job_keys.h"
#include "deploy/launch/run_folder.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using Task = RemoteHosts::Task;

// Moves the regular files with names of a run from one folder to another.
absl::Status TakeRunFiles(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    const std::string name = entry.path().filename();
    std::error_code ignored;
    // Not what a link leads to.
    const bool is_file = fs::is_regular_file(entry.symlink_status(ignored));
    if (is_file && IsWrittenByARun(name)) fs::rename(entry.path(), to / name, error);
    if (error) break;
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("expected to write files to ", to.string(),
                                             ", but cannot (", error.message(), ")"));
}

}  // namespace

std::string JobFolders::Enter(int host) const {
  return absl::StrCat(kFindCache, "cd \"$cache/job.", id_, ".", host, "\" && ");
}

absl::Status JobFolders::Send(const std::string& files) {
  Task task;
  task.what = "send the job to the hosts";
  task.script = [this](int host) {
    return absl::StrCat(kFindCache, "folder=\"$cache/job.", id_, ".", host,
                        "\"; umask 077; mkdir -p \"$cache\" && mkdir \"$folder\" && "
                        "tar -xf - -C \"$folder\" && answer sent");
  };
  task.here = [&files](int) {
    return absl::StrCat("{ tar -cf - ", files, " || kill -KILL 0; } | \"$@\"");
  };
  return hosts_.RunAll(task, hosts_.All()).status();
}

absl::Status JobFolders::Fetch(const std::vector<Results>& results) {
  const auto received = [&results](int host) { return results[host].to + "/.received"; };
  std::error_code error;
  for (int host = 0; host < hosts_.size(); ++host) {
    fs::remove_all(received(host), error);
    fs::create_directories(received(host), error);
  }
  Task task;
  task.what = "fetch the logs";
  task.time_limit = absl::InfiniteDuration();
  task.script = [&](int host) {
    const std::string folder = ShellWord(results[host].results);
    return absl::StrCat(Enter(host), "mkdir -p ", folder, " && cd ", folder,
                        " && printf '\\nfiles follow\\n' && tar -cf - .");
  };
  // A login shell may print something first.
  task.here = [&](int host) {
    return absl::StrCat(
        "\"$@\" | LC_ALL=C sed '1,/^files follow$/d' | tar -xf - --no-same-owner "
        "--no-same-permissions -C ",
        ShellWord(received(host)), " && answer fetched");
  };
  absl::Status fetched = hosts_.RunAll(task, hosts_.All()).status();
  for (int host = 0; host < hosts_.size(); ++host) {
    fetched.Update(TakeRunFiles(received(host), results[host].to));
    fs::remove_all(received(host), error);
  }
  return fetched;
}

absl::Status JobFolders::Remove(bool keeps_results) {
  Task task;
  task.what = "remove the job's folder";
  task.script = [&](int host) {
    std::string removal = absl::StrCat("rm -rf \"$cache/job.", id_, ".", host, "\"");
    if (keeps_results) {
      removal = absl::StrCat(Enter(host), "rm -f ", kAuthorityFile, " ", kCertificateFile, " ",
                             kPrivateKeyFile, " ", kTokenFile);
    }
    return absl::StrCat(kFindCache, removal, " && answer removed");
  };
  return hosts_.RunAll(task, hosts_.All()).status();
}

}  // namespace capstan
