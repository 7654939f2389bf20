#include "deploy/launch/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

bool AreAll(absl::string_view text, bool (*is_one)(unsigned char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_one);
}

// A log or a trace: "coordinator.log", "server-0.log", "worker-12.trace.json".
bool IsOfAProcess(absl::string_view name) {
  if (name == absl::StrCat("coordinator", kLogEnding)) return true;
  if (!absl::ConsumeSuffix(&name, kLogEnding) && !absl::ConsumeSuffix(&name, kTraceEnding)) {
    return false;
  }
  if (!absl::ConsumePrefix(&name, "server-") && !absl::ConsumePrefix(&name, "worker-")) {
    return false;
  }
  return AreAll(name, absl::ascii_isdigit);
}

// "worker-1f2e3d4c5b6a7988.history".
bool IsHistory(absl::string_view name) {
  return absl::ConsumeSuffix(&name, ".history") && absl::ConsumePrefix(&name, "worker-") &&
         AreAll(name, absl::ascii_isxdigit);
}

// The files in `folder` with a name of ours. Makes the folder if need be. Errors begin with `flag`.
absl::StatusOr<std::vector<fs::path>> OurFiles(const std::string& folder, absl::string_view flag,
                                               absl::FunctionRef<bool(absl::string_view)> is_ours) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(flag, ": expected to make the folder ", folder,
                                               ", got \"", error.message(), "\"; choose another"));
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (is_ours(entry.path().filename().string())) files.push_back(entry.path());
  }
  return files;
}

// The lock ends with the result, and with this process, however it ends.
absl::StatusOr<OpenFile> LockFolder(const std::string& path) {
  ASSIGN_OR_RETURN(OpenFile lock, OpenFile::Open(absl::StrCat(path, "/", kRunLockFile),
                                                 O_RDWR | O_CREAT | O_NOFOLLOW));
  if (flock(lock.descriptor(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat("--run_dir: expected to lock ", lock.path(),
                                               ", got \"", std::strerror(errno),
                                               "\"; choose another folder"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("--run_dir: expected a folder that no other run uses, but another capstan run "
                   "has its logs in ",
                   path, "; choose another folder, or end that run first"));
}

}  // namespace

bool IsWrittenByARun(absl::string_view name) {
  return name == kEffectiveJobFile || name == kPortFile || name == kSummaryFile ||
         name == kProgressFile || name == kReportFile || name == kMergedTraceFile ||
         IsOfAProcess(name);
}

std::string DefaultRunFolder(const std::string& job_name, absl::Time now) {
  const std::string base = absl::StrCat(
      "runs/", job_name, "-", absl::FormatTime("%Y%m%d-%H%M%S", now, absl::LocalTimeZone()));
  std::string path = base;
  std::error_code ignored;
  for (int i = 2; fs::exists(path, ignored); ++i) path = absl::StrCat(base, "-", i);
  return path;
}

absl::StatusOr<OpenFile> PrepareRunFolder(const std::string& path, const std::string& job_file) {
  ASSIGN_OR_RETURN(const std::vector<fs::path> files, OurFiles(path, "--run_dir", IsWrittenByARun));
  std::error_code ignored;
  for (const fs::path& file : files) {
    if (!job_file.empty() && fs::equivalent(file, job_file, ignored)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--job: expected a file that the run does not replace, got ", job_file,
                       ", of an earlier run; copy it, or choose another --run_dir"));
    }
  }
  ASSIGN_OR_RETURN(OpenFile lock, LockFolder(path));
  for (const fs::path& file : files) fs::remove(file, ignored);
  fs::remove_all(fs::path(path) / kStateFolder, ignored);
  return lock;
}

absl::Status PrepareHistoryFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<fs::path> files,
                   OurFiles(path, "--record_history", IsHistory));
  std::error_code ignored;
  for (const fs::path& file : files) fs::remove(file, ignored);
  return absl::OkStatus();
}

}  // namespace capstan
