#include "tests/process/child_results.h"

#include <glog/logging.h>
#include <poll.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/program.h"

namespace capstan {
namespace {

constexpr char kError[] = "error: ";

absl::StatusOr<std::string> ResultOf(ForkedProcess& child) {
  std::string line = child.ReadLine();
  if (line.empty()) return absl::InternalError("a process died; see its log above");
  absl::string_view message = line;
  if (absl::ConsumePrefix(&message, kError)) return absl::InternalError(message);
  return line;
}

}  // namespace

std::unique_ptr<ForkedProcess> StartChild(
    std::function<absl::Status(ForkedProcess::Parent& parent)> run) {
  return std::make_unique<ForkedProcess>([run = std::move(run)](ForkedProcess::Parent& parent) {
    if (const absl::Status status = run(parent); !status.ok()) {
      parent.WriteLine(absl::StrCat(kError, status.message()));
    }
    parent.ReadLine();
    ExitProgram(0);
  });
}

absl::StatusOr<std::vector<std::string>> ChildResults(
    absl::Span<const std::unique_ptr<ForkedProcess>> children) {
  std::vector<std::string> results(children.size());
  std::vector<pollfd> waiting;
  for (const auto& child : children) waiting.push_back({child->in(), POLLIN, 0});
  for (size_t missing = children.size(); missing > 0;) {
    if (poll(waiting.data(), waiting.size(), /*timeout=*/-1) < 0) {
      PCHECK(errno == EINTR);
      continue;
    }
    for (size_t i = 0; i < children.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      absl::StatusOr<std::string> result = ResultOf(*children[i]);
      if (!result.ok()) return result.status();
      results[i] = *std::move(result);
      waiting[i].fd = -1;  // poll passes over it
      --missing;
    }
  }
  return results;
}

}  // namespace capstan
