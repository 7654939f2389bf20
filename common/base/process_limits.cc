#include "common/base/process_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"

namespace capstan {

void RaiseOpenFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status ExpectOpenFiles(uint64_t connections) {
  // Logs, the listening ports, gRPC's pollers and timers. With fewer it hangs.
  constexpr uint64_t kOwnFiles = 24;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  if (limit.rlim_cur >= kOwnFiles + connections) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "expected to be allowed ", kOwnFiles + connections, " open files and connections, got ",
      limit.rlim_cur, ": raise the limit (ulimit -n)"));
}

absl::Status ExpectAddressSpace() {
  // On 2 cores a worker trains with 960 MiB, and with 880 it waits for ever. Each further core adds
  // threads, which need stacks.
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const uint64_t expected = (896 + 32 * uint64_t{std::thread::hardware_concurrency()}) * kMiB;
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0) return absl::OkStatus();
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("expected to be allowed ", expected / kMiB,
                   " MiB of address space, which threads reserve, got ", limit.rlim_cur / kMiB,
                   " MiB: raise the limit (ulimit -v)"));
}

absl::Status CheckOpenFiles() {
  const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) {
    close(descriptor);
    return absl::OkStatus();
  }
  if (errno == ENFILE) {
    return absl::UnavailableError(
        "this machine has as many open files as it can: end other programs, or raise fs.file-max");
  }
  rlimit limit;
  if (errno != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("this process has as many open files and connections as it may (",
                   limit.rlim_cur, "): raise the limit (ulimit -n)"));
}

}  // namespace capstan
