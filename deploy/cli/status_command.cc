#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/routing/copies_text.h"
#include "common/routing/rounds_text.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/grpc_status_client.h"
#include "deploy/cli/text/number_text.h"
#include "deploy/cli/text/progress_lines.h"
#include "deploy/cli/text/summary.h"

namespace capstan {
namespace {

std::string ServerLine(const v1::ServerInfo& server, const v1::GetStatusReply& status) {
  const auto& placement = status.view().server_of_shard();
  const auto num_shards = std::count(placement.begin(), placement.end(), server.server());
  const uint64_t bytes = static_cast<int>(server.server()) < status.bytes_of_server_size()
                             ? status.bytes_of_server(server.server())
                             : 0;
  std::string line = absl::StrFormat("  server-%-3d %-22s %s", server.server(), server.address(),
                                     server.is_live() ? "live" : "lost");
  if (!placement.empty()) absl::StrAppendFormat(&line, "  %5d shards", num_shards);
  // Nobody knows the bytes of rows beforehand.
  const auto& tables = status.view().tables();
  const bool has_rows = std::any_of(tables.begin(), tables.end(),
                                    [](const v1::TableSpec& one) { return one.has_sparse(); });
  if (!placement.empty() && !has_rows) absl::StrAppend(&line, "  ", BytesText(bytes));
  const auto& copies = status.view().copies();
  const auto is_here = [&](const v1::ShardCopy& copy) {
    return copy.server() == server.server() && copy.fault().empty();
  };
  const auto is_made_here = [&](const v1::ShardCopy& copy) {
    return is_here(copy) && !copy.is_whole();
  };
  const auto num_copies = std::count_if(copies.begin(), copies.end(), is_here);
  const auto num_made = std::count_if(copies.begin(), copies.end(), is_made_here);
  if (!copies.empty()) absl::StrAppend(&line, "  and ", num_copies, " copies");
  if (num_made > 0) absl::StrAppend(&line, ", ", num_made, " of them being made");
  return line + "\n";
}

// "2", or "1 of 2" while the job waits for more.
std::string CountOf(int registered, uint32_t expected) {
  if (static_cast<uint32_t>(registered) >= expected) return absl::StrCat(registered);
  return absl::StrCat(registered, " of ", expected);
}

// Nothing for the job's first coordinator.
std::string CoordinatorLine(const v1::GetStatusReply& status) {
  if (status.term() <= 1) return "";
  return absl::StrFormat("coordinator: the %s of this job (term %d)\n", OrdinalText(status.term()),
                         status.term());
}

// The newest agreed consistency. Its first step may still be to come.
std::string ConsistencyLine(const v1::JobView& view) {
  if (view.consistency().empty()) return "";
  const v1::ConsistencyPeriod& latest = *view.consistency().rbegin();
  std::string line = absl::StrCat("consistency: ", ConsistencyText(latest.consistency()),
                                  ", from step ", latest.first_step(), " on");
  if (view.consistency_change() != 0) line += "; a change is being agreed on";
  return line + "\n";
}

std::string RoundsLine(const v1::GetStatusReply& status) {
  const std::string text = RoundsText(status);
  return text.empty() ? "" : absl::StrCat("rounds: ", text, "\n");
}

std::string CopiesLine(const v1::GetStatusReply& status) {
  const std::string text = CopiesText(status);
  return text.empty() ? "" : absl::StrCat("copies: ", text, "\n");
}

std::string LinkLine(const v1::GetStatusReply& status) {
  return status.has_links() ? absl::StrCat("links: ", PrintableText(status.links().text()), "\n")
                            : "";
}

std::string TuningLine(const v1::GetStatusReply& status) {
  return status.has_tuning() ? absl::StrCat("tuning: ", TuningText(status.tuning()), "\n") : "";
}

// Nothing in a job without codecs.
std::string CodecLines(const v1::GetStatusReply& status) {
  if (!status.has_codec()) return "";
  const std::string work = CodecLine(status);
  const std::string choice = PrintableText(status.auto_codecs().text());
  return absl::StrCat("codecs: ", PrintableText(CodecText(status.codec())), "\n",
                      choice.empty() ? "" : absl::StrCat("  auto: ", choice, "\n"),
                      work.empty() ? "" : "  ", work, work.empty() ? "" : "\n");
}

// "devices:" and, for each, its workers. Nothing before they have reported.
std::string DeviceLines(const v1::GetStatusReply& status) {
  std::vector<std::pair<std::string, std::vector<int>>> workers_of;
  for (int worker = 0; worker < status.progress_size(); ++worker) {
    const std::string device = PrintableText(status.progress(worker).device());
    if (device.empty()) continue;
    const auto known = std::find_if(workers_of.begin(), workers_of.end(),
                                    [&](const auto& one) { return one.first == device; });
    auto& [name, workers] =
        known == workers_of.end() ? workers_of.emplace_back(device, std::vector<int>()) : *known;
    workers.push_back(worker);
  }
  std::string text = workers_of.empty() ? "" : "devices:\n";
  for (const auto& [device, workers] : workers_of) {
    absl::StrAppend(&text, "  ", device, ": worker ", absl::StrJoin(workers, ", "), "\n");
  }
  return text;
}

// Nothing if the job has no checkpoints and did not begin with one.
std::string CheckpointLines(const v1::GetStatusReply& status) {
  const v1::CheckpointStatus& checkpoint = status.checkpoint();
  std::string text;
  if (!checkpoint.restored().empty()) {
    absl::StrAppend(&text, "restored: step ", checkpoint.restored_step(), ", ",
                    checkpoint.restored(), "\n");
  }
  if (checkpoint.dir().empty()) return text;
  absl::StrAppend(&text, "checkpoints: ");
  if (checkpoint.newest().empty()) {
    absl::StrAppend(&text, "none yet in ", checkpoint.dir());
  } else {
    absl::StrAppend(&text, "step ", checkpoint.step(), ", ", checkpoint.newest());
  }
  const auto& periods = status.view().consistency();
  const bool is_bsp =
      periods.empty() || periods.rbegin()->consistency().mode() == v1::ConsistencySpec::BSP;
  // Otherwise it has the steps that are done when it is cut.
  if (const int64_t step = status.view().checkpoint().step(); step > 0 && is_bsp) {
    absl::StrAppend(&text, "; the next one is of step ", step);
  }
  if (!checkpoint.error().empty()) {
    absl::StrAppend(&text, "; the last attempt has failed: ", PrintableText(checkpoint.error()));
  }
  return text + "\n";
}

}  // namespace

std::string FormatStatus(const ProgressSample& now, const ProgressSample& before) {
  const v1::GetStatusReply& status = now.status;
  const v1::JobView& view = status.view();
  std::string text = absl::StrFormat("job %s: %s", status.job_name(), PhaseText(view));
  if (!view.reason().empty()) absl::StrAppendFormat(&text, " (%s)", view.reason());
  if (!view.server_of_shard().empty()) {
    absl::StrAppendFormat(&text, ", routing epoch %d, %d tables, %d shards", view.epoch(),
                          view.tables_size(), view.server_of_shard_size());
  }
  absl::StrAppend(&text, "\n", CoordinatorLine(status), ConsistencyLine(view), RoundsLine(status),
                  CheckpointLines(status), CopiesLine(status), LinkLine(status), TuningLine(status),
                  CodecLines(status), "servers ",
                  CountOf(view.servers_size(), status.num_servers()), ":\n");
  for (const v1::ServerInfo& server : view.servers()) text += ServerLine(server, status);
  absl::StrAppendFormat(&text, "workers %s:\n", CountOf(view.workers_size(), status.num_workers()));
  for (const std::string& line : WorkerLines(now, before)) {
    absl::StrAppendFormat(&text, "  %s\n", line);
  }
  for (const std::string& line : ReplacementLines(status)) absl::StrAppend(&text, line, "\n");
  for (const std::string& line : ServerLossLines(status)) absl::StrAppend(&text, line, "\n");
  return text + DeviceLines(status);
}

absl::Status StatusCommand(const std::string& address, const SecurityPointer& security,
                           Clock* clock, std::ostream& out) {
  GrpcStatusClient client(address, clock, security);
  ASSIGN_OR_RETURN(const v1::GetStatusReply status, client.GetStatus());
  out << FormatStatus({absl::ZeroDuration(), status}) << std::flush;
  return absl::OkStatus();
}

}  // namespace capstan
