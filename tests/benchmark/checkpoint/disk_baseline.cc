#include "tests/benchmark/checkpoint/disk_baseline.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/model_file/model_file.h"

namespace capstan {
namespace {

absl::StatusOr<absl::Duration> TimeDd(std::vector<std::string> args) {
  args.insert(args.begin(), "dd");
  args.push_back("status=none");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const absl::Time begin = absl::Now();
  pid_t pid = 0;
  int status = -1;
  const int error = posix_spawnp(&pid, "dd", nullptr, nullptr, argv.data(), environ);
  if (error == 0) waitpid(pid, &status, 0);
  if (status == 0) return absl::Now() - begin;
  return absl::InternalError(
      absl::StrCat(absl::StrJoin(args, " "), ": ", error != 0 ? std::strerror(error) : "failed"));
}

}  // namespace

absl::StatusOr<absl::Duration> TimeDdWrite(const std::string& path, uint64_t blocks) {
  return TimeDd(
      {"if=/dev/zero", "of=" + path, "bs=1M", absl::StrCat("count=", blocks), "conv=fsync"});
}

absl::StatusOr<absl::Duration> TimeDdRead(const std::string& path) {
  return TimeDd({"if=" + path, "of=/dev/null", "bs=1M"});
}

absl::Status DropFromPageCache(const std::string& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    ASSIGN_OR_RETURN(const OpenFile file, OpenFile::Open(entry.path(), O_RDONLY));
    posix_fadvise(file.descriptor(), /*offset=*/0, /*len=*/0, POSIX_FADV_DONTNEED);
  }
  return absl::OkStatus();
}

}  // namespace capstan
