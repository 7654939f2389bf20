#include "server/coordinator/members/member_loss.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/printable_text.h"
#include "server/coordinator/members/job_progress.h"

namespace capstan {
namespace {

constexpr Role kServer = v1::HeartbeatRequest::SERVER;
constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

MemberLoss Failing(std::string text) { return {/*fails_job=*/true, false, std::move(text)}; }

std::string ReasonOf(const v1::ReportFailureRequest& failure) {
  return failure.reason().empty() ? "failed without a reason" : CutText(failure.reason());
}

// The newest view still has the lost worker.
bool ChangesBits(const JobFacts& facts) {
  v1::GetStatusReply status;
  *status.mutable_view() = facts.view;
  for (uint32_t id = 0; id < facts.members.workers().size(); ++id) {
    *status.add_progress() = facts.ProgressOf(id);
  }
  return HasBspStepsLeft(status);
}

// "1 of its shards", "12 of its shards".
std::string CountText(uint32_t shards) { return absl::StrCat(shards, " of its shards"); }

// For a job with one replica that was training. Empty: another one.
std::string AdviceOnReplicas(const JobFacts& facts) {
  if (!facts.is_running() || facts.has_copies()) return "";
  return absl::StrCat("; with ", facts.members.servers().size() > 1 ? "" : "two servers and ",
                      "--replicas=2 the job would have gone on");
}

// Whether the programs run the optimizer of a table.
bool HasMeanTables(const JobFacts& facts) {
  return std::any_of(facts.tables.specs().begin(), facts.tables.specs().end(),
                     [](const v1::TableSpec& table) { return table.replies_mean(); });
}

MemberLoss LossBeforeRegistering(const v1::ReportFailureRequest& failure, const JobFacts& facts) {
  const std::string what = absl::StrCat("a ", RoleName(failure.role()),
                                        " failed before it registered: ", ReasonOf(failure));
  const bool is_missing =
      facts.view.phase() == v1::REGISTERING && facts.members.Lacks(failure.role());
  if (is_missing) return Failing(what);
  // It was one too many, or the others go on without it.
  return {false, false, JobEvent(what, std::nullopt, ReasonOf(failure))};
}

}  // namespace

MemberLoss LossByFailure(const v1::ReportFailureRequest& failure, const JobFacts& facts) {
  if (failure.before_registering()) return LossBeforeRegistering(failure, facts);
  const std::string what =
      absl::StrCat(MemberName({failure.role(), failure.id()}), ": ", ReasonOf(failure));
  const bool is_needed = !facts.result.has_value() || failure.role() != kWorker;
  return is_needed ? Failing(what) : LossAfterResult(what, ReasonOf(failure));
}

MemberLoss LossOfServer(uint32_t server, const ServerEnd& end, uint32_t shards_without_copy,
                        const JobFacts& facts, const std::string& newest_checkpoint) {
  const char* const advice = !newest_checkpoint.empty()   ? "go on with --restore=latest"
                             : !facts.restored.is_empty() ? "restore the same checkpoint again"
                                                          : "start the job again";
  const bool had_copies = facts.is_running() && facts.has_copies() && shards_without_copy > 0;
  return Failing(absl::StrCat(
      MemberName({kServer, server}), " (", facts.members.servers()[server].address.grpc, ") ",
      end.what,
      had_copies ? absl::StrCat("; no whole copy is left of ", CountText(shards_without_copy))
                 : "; its shards are lost",
      ": see its log, and ", advice, AdviceOnReplicas(facts)));
}

MemberLoss LossOfServerWithCopies(uint32_t server, const ServerEnd& end,
                                  const std::map<uint32_t, uint32_t>& taken,
                                  uint32_t copies_not_whole, const JobFacts& facts) {
  std::vector<std::string> moves;
  for (const auto& [heir, count] : taken) {
    moves.push_back(moves.empty() ? absl::StrCat(CountText(count), count == 1 ? " is" : " are",
                                                 " on server ", heir, " now")
                                  : absl::StrCat(count, " on server ", heir));
  }
  std::string text = absl::StrCat(MemberName({kServer, server}), " ", end.what, ": ",
                                  moves.empty() ? "it had copies only" : absl::StrJoin(moves, ", "),
                                  "; nothing is lost");
  if (copies_not_whole > 0) {
    const bool has_room = facts.members.LiveServerCount() > 1;
    absl::StrAppend(&text, "; one copy is left of ", copies_not_whole,
                    copies_not_whole == 1 ? " shard" : " shards", " until ",
                    has_room ? "others are made" : "another server takes its place");
  }
  JobEvent event(std::move(text), std::nullopt, end.reason);
  event.is_warning = true;
  return {/*fails_job=*/false, /*changes_bits=*/false, std::move(event)};
}

MemberLoss LossOfWorker(uint32_t worker, const std::string& what, const std::string& reason,
                        const JobFacts& facts) {
  if (facts.view.phase() == v1::REGISTERING || facts.view.phase() == v1::PLACING) {
    return Failing(
        absl::StrCat(what, " before training began: see its log, and start the job again"));
  }
  const bool is_last = !facts.members.HasWorkers();
  if (is_last && !facts.job.stay()) {
    return Failing(absl::StrCat(
        what, " and was the last live worker: see the workers' logs, and start the job again"));
  }
  // Worker 0 has the last parameters until it has given them.
  if (HasMeanTables(facts) && (worker == 0 || ChangesBits(facts))) {
    return Failing(absl::StrCat(
        what,
        "; the programs run the optimizer, and no other process could begin with its state: "
        "start the job again, or "
        "go on from a checkpoint"));
  }
  const Member& member = facts.members.workers()[worker];
  const bool changes_bits = member.is_lost() && !HasFinished(member.progress) && ChangesBits(facts);
  if (changes_bits && !facts.job.membership().allow_other_bits()) {
    return Failing(absl::StrCat(
        what, "; under bsp the others could go on with other bits only (--allow_other_bits)"));
  }
  const char* const effect =
      is_last ? "; the job stays, and waits for other workers" : "; the others go on";
  return {false, changes_bits,
          JobEvent(absl::StrCat(what, effect), member.progress.steps_done(), reason)};
}

MemberLoss LossAfterResult(const std::string& what, const std::string& reason) {
  return {false, false, JobEvent(absl::StrCat(what, "; its work is done"), std::nullopt, reason)};
}

}  // namespace capstan
