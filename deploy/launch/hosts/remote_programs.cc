#include "deploy/launch/hosts/remote_programs.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/input_file.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "xxhash.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using Task = RemoteHosts::Task;

// In the place of a folder.
constexpr absl::string_view kNoPrograms = "none";

// The name under which hosts keep a bundle: a hash of the archive, or of the list of its files.
absl::StatusOr<std::string> BundleName(const std::string& bundle) {
  std::error_code ignored;
  // The list has a checksum of each file.
  const std::string path =
      fs::is_directory(bundle, ignored) ? absl::StrCat(bundle, "/capstan.spdx.json") : bundle;
  constexpr uint64_t kMostBytes = uint64_t{4} << 30;
  const absl::StatusOr<std::string> bytes = ReadInputFile(path, kMostBytes);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bundle: expected an archive of deploy/bundle.sh, or its unpacked folder, "
                     "but cannot read ",
                     path, " (", bytes.status().message(), ")"));
  }
  return absl::StrCat("bundle-",
                      absl::Hex(XXH3_64bits(bytes->data(), bytes->size()), absl::kZeroPad16));
}

// The hosts with kNoPrograms as their folder.
std::vector<int> WithoutPrograms(const std::vector<std::string>& folders) {
  std::vector<int> hosts;
  for (int host = 0; host < static_cast<int>(folders.size()); ++host) {
    if (folders[host] == kNoPrograms) hosts.push_back(host);
  }
  return hosts;
}

std::string NamesOf(const std::vector<int>& which, const RemoteHosts& hosts) {
  return absl::StrJoin(which, ", ", [&hosts](std::string* out, int host) {
    absl::StrAppend(out, hosts.hosts()[host].name);
  });
}

// The folder in the host's answer, which is "VERSION FOLDER", or kNoPrograms.
absl::StatusOr<std::string> ReadAnswer(const std::string& host, const std::string& answer) {
  if (answer == kNoPrograms) return answer;
  const std::pair<std::string, std::string> parts = absl::StrSplit(answer, absl::MaxSplits(' ', 1));
  if (parts.first == kVersion) return parts.second;
  return absl::FailedPreconditionError(
      absl::StrCat("host ", host, ": expected programs of version ", kVersion, ", got ",
                   parts.first, " in ", parts.second, "; all hosts need the same version"));
}

// `folder`: the folder to look at, as a word of the hosts' shell.
absl::StatusOr<std::vector<std::string>> LookForPrograms(const std::string& folder,
                                                         RemoteHosts* hosts) {
  Task task;
  task.what = "reach all hosts by ssh without a password, and find programs that run there";
  task.script = [&folder](int) {
    return absl::StrCat(kFindCache, "programs=", folder,
                        "; if [ ! -x \"$programs/capstan\" ]; then answer ", kNoPrograms,
                        "; else version=$(\"$programs/capstan\" --version) && ",
                        "answer \"${version#capstan } $programs\"; fi");
  };
  ASSIGN_OR_RETURN(std::vector<std::string> folders, hosts->RunAll(task, hosts->All()));
  for (int host = 0; host < hosts->size(); ++host) {
    ASSIGN_OR_RETURN(folders[host], ReadAnswer(hosts->hosts()[host].name, folders[host]));
  }
  return folders;
}

absl::Status CopyBundle(const std::string& bundle, const std::string& name,
                        const std::vector<int>& which, RemoteHosts* hosts) {
  const fs::path path = (fs::absolute(bundle) / "").parent_path();
  std::error_code ignored;
  // Compressing it for each host would take longer than most networks.
  const bool is_archive = !fs::is_directory(path, ignored);
  Task task;
  task.what = "copy the programs";
  task.time_limit = absl::InfiniteDuration();
  task.here = [&](int) {
    if (is_archive) return absl::StrCat("exec \"$@\" <", ShellWord(path.string()));
    return absl::StrCat("{ tar -cf - -C ", ShellWord(path.parent_path().string()), " ",
                        ShellWord(path.filename().string()), " || kill -KILL 0; } | \"$@\"");
  };
  // A copy gets its name when it is complete. Hosts may share the folder: the first copy stays.
  task.script = [&](int) {
    return absl::StrCat(
        kFindCache, "umask 077; mkdir -p \"$cache\" && new=$(mktemp -d \"$cache/new.XXXXXX\") || ",
        "exit 1; trap 'rm -rf \"$new\"' EXIT; trap 'exit 1' HUP INT PIPE TERM; tar ",
        is_archive ? "-xzf" : "-xf", " - --strip-components=1 -C \"$new\" || exit 1; ",
        "for program in capstan capstan_coordinator capstan_server capstan_worker; do ",
        "[ -f \"$new/bin/$program\" ] || { echo \"expected bin/$program in --bundle, got none\" ",
        ">&2; exit 1; }; done; mv -T \"$new\" \"$cache\"/", name, " || [ -d \"$cache\"/", name,
        " ] || exit 1; answer copied");
  };
  return hosts->RunAll(task, which).status();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> BringPrograms(
    const HostList& list, const std::function<void(const std::string&)>& tell, RemoteHosts* hosts) {
  const bool has_bundle = !list.bundle.empty();
  std::string name;
  if (has_bundle) {
    ASSIGN_OR_RETURN(name, BundleName(list.bundle));
  }
  const std::string folder =
      has_bundle ? absl::StrCat("\"$cache\"/", name, "/bin") : ShellWord(list.remote_programs);
  ASSIGN_OR_RETURN(std::vector<std::string> folders, LookForPrograms(folder, hosts));
  std::vector<int> lacking = WithoutPrograms(folders);
  if (lacking.empty()) return folders;
  if (!has_bundle) {
    return absl::FailedPreconditionError(
        absl::StrCat("--remote_programs: expected the program capstan in ", list.remote_programs,
                     " of each host, got none on ", NamesOf(lacking, *hosts)));
  }
  tell(absl::StrCat("copies the programs to ", lacking.size(), " of ", hosts->size(), " hosts"));
  RETURN_IF_ERROR(CopyBundle(list.bundle, name, lacking, hosts));
  ASSIGN_OR_RETURN(folders, LookForPrograms(folder, hosts));
  lacking = WithoutPrograms(folders);
  if (lacking.empty()) return folders;
  return absl::FailedPreconditionError(absl::StrCat(
      "--bundle: expected programs that run in ~/.cache/capstan, got none on ",
      NamesOf(lacking, *hosts), "; may programs run there? If not, use --remote_programs=DIR"));
}

}  // namespace capstan
