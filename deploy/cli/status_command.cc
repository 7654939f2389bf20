#include "deploy/cli/status_command.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "deploy/cli/grpc_status_client.h"
#include "deploy/cli/number_text.h"
#include "deploy/cli/progress_lines.h"

namespace capstan {
namespace {

std::string ServerLine(const v1::ServerInfo& server, const v1::GetStatusReply& status) {
  const auto& placement = status.view().server_of_shard();
  const auto num_shards = std::count(placement.begin(), placement.end(), server.server());
  const uint64_t bytes = static_cast<int>(server.server()) < status.bytes_of_server_size()
                             ? status.bytes_of_server(server.server())
                             : 0;
  return absl::StrFormat("  server-%-3d %-22s %-5s %5d shards  %s\n", server.server(),
                         server.address(), server.is_live() ? "live" : "lost", num_shards,
                         BytesText(bytes));
}

}  // namespace

std::string FormatStatus(const v1::GetStatusReply& status) {
  const v1::JobView& view = status.view();
  std::string text = absl::StrFormat("job %s: %s", status.job_name(), PhaseText(view.phase()));
  if (!view.reason().empty()) absl::StrAppendFormat(&text, " (%s)", view.reason());
  absl::StrAppendFormat(&text, ", epoch %d, %d tables, %d shards\n", view.epoch(),
                        view.tables_size(), view.server_of_shard_size());
  absl::StrAppendFormat(&text, "servers (%d):\n", view.servers_size());
  for (const v1::ServerInfo& server : view.servers()) text += ServerLine(server, status);
  absl::StrAppendFormat(&text, "workers (%d):\n", view.workers_size());
  // A sample without an earlier one has rates since the start of each worker.
  for (const std::string& line : WorkerLines({absl::ZeroDuration(), status}, {})) {
    absl::StrAppendFormat(&text, "  %s\n", line);
  }
  return text;
}

absl::Status StatusCommand(const std::string& address, std::ostream& out) {
  GrpcStatusClient client(address);
  ASSIGN_OR_RETURN(const v1::GetStatusReply status, client.GetStatus());
  out << FormatStatus(status) << std::flush;
  return absl::OkStatus();
}

}  // namespace capstan
