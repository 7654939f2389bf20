#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/job/field_text.h"
#include "common/job/job_properties.h"
#include "common/job/job_settings.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/grpc_coordinator_client.h"
#include "deploy/cli/commands.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

// The command gives up on an unreachable coordinator after this time.
constexpr absl::Duration kDeadline = absl::Seconds(2);

}  // namespace

absl::StatusOr<v1::SetConsistencyRequest> ReadConsistencyChange(
    const std::map<std::string, std::string>& flags) {
  v1::JobSpec job;
  bool is_any_set = false;
  for (const char* name : {"consistency", "staleness", "table_staleness"}) {
    const auto flag = flags.find(name);
    if (flag == flags.end()) continue;
    const JobSetting& setting = *FindJobSetting(name);
    RETURN_IF_ERROR(
        Annotate(SetFieldText(MessageOf(setting, &job), *setting.descriptor, flag->second),
                 absl::StrCat("flag --", name)));
    is_any_set = true;
  }
  if (!is_any_set) {
    return absl::InvalidArgumentError(
        "expected --consistency, --staleness or --table_staleness, got none of them");
  }
  v1::SetConsistencyRequest request;
  *request.mutable_change() = job.consistency();
  request.set_clear_table_staleness(flags.count("table_staleness") > 0 &&
                                    job.consistency().table_staleness().empty());
  return request;
}

std::string FormatConsistencyReply(const v1::SetConsistencyReply& reply) {
  const int64_t first_step = reply.period().first_step();
  std::string text = absl::StrCat("from step ", first_step);
  if (reply.steps_total() > 0) absl::StrAppend(&text, " of ", reply.steps_total());
  absl::StrAppend(&text, " on: ", ConsistencyText(reply.period().consistency()), "\n");
  if (reply.steps_total() > 0 && first_step >= reply.steps_total()) {
    absl::StrAppend(&text,
                    "That comes too late for this job: its workers are at their last steps.\n");
  }
  return text;
}

absl::Status SetCommand(const std::string& address, const v1::SetConsistencyRequest& request,
                        const SecurityPointer& security, Clock* clock, std::ostream& out) {
  CoordinatorOptions options = {address, kDeadline};
  options.is_member = false;
  options.security = security;
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorEndpoint> coordinator,
                   ConnectToCoordinator(std::move(options), clock, Random(SystemRandom())));
  ASSIGN_OR_RETURN(const v1::SetConsistencyReply reply, AwaitReply(*coordinator, request, *clock));
  out << PrintableLines(FormatConsistencyReply(reply)) << std::flush;
  return absl::OkStatus();
}

}  // namespace capstan
