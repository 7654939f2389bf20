// The part of JobState about members: who comes, who fails, who is silent.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/end_request.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/codec/table_codecs.h"
#include "common/job/job_properties.h"
#include "common/routing/job_view.h"
#include "server/coordinator/job_progress.h"
#include "server/coordinator/job_state.h"
#include "server/optimizer/table_optimizers.h"

namespace capstan {
namespace {

constexpr Role kServer = v1::HeartbeatRequest::SERVER;
constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

constexpr size_t kMostHostBytes = 200;
constexpr size_t kMostRefusalBytes = 1000;

std::string ReasonOf(const v1::ReportFailureRequest& request) {
  return request.reason().empty() ? "failed without a reason" : CutText(request.reason());
}

// `expected` is the number of `whose`.
absl::Status CheckSameOwnArrays(uint32_t own_arrays, uint32_t expected, absl::string_view whose) {
  if (own_arrays == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, " arrays of own state, as ", whose, " has, got ",
                   own_arrays, "; start every worker with the same job and the same program"));
}

}  // namespace

absl::StatusOr<uint32_t> JobState::RegisterServer(const v1::RegisterServerRequest& request) {
  RETURN_IF_ERROR(CheckAddress(request.address()));
  return Register(kServer, Incarnation(request.incarnation()), {request.address()}, request.host(),
                  /*may_enter_late=*/false);
}

std::optional<uint32_t> JobState::RegistersBefore(const v1::RegisterWorkerRequest& request) const {
  const auto next = static_cast<uint32_t>(members_.workers().size());
  const bool is_early = view_.phase() == v1::REGISTERING && request.has_rank() &&
                        request.rank() > next && request.rank() < job_.cluster().num_workers();
  return is_early ? std::make_optional(next) : std::nullopt;
}

absl::Status JobState::TakeTables(const v1::RegisterWorkerRequest& request) {
  if (!restored_.path.empty()) {
    RETURN_IF_ERROR(CheckSameTables(request.tables(), restored_.manifest.tables(), "the checkpoint",
                                    "go on with the tables and the data of its job"));
    RETURN_IF_ERROR(CheckSameOwnArrays(request.own_arrays(), restored_.manifest.own_arrays(),
                                       "the checkpoint"));
  }
  if (members_.workers().empty()) {
    ASSIGN_OR_RETURN(table_elements_,
                     CheckTables(request.tables(), SliceBytes(links_.scheduler())));
    RETURN_IF_ERROR(CheckOwnArrays(request.own_arrays(), MostPushArrays(job_.codec()),
                                   table_elements_, SliceBytes(links_.scheduler())));
    RETURN_IF_ERROR(CheckTableStaleness(job_.consistency(), request.tables()));
    RETURN_IF_ERROR(CheckTableCodecs(job_.codec(), request.tables()));
    for (const v1::TableSpec& table : request.tables()) {
      RETURN_IF_ERROR(CodecsOfTable(job_.codec(), table.name(), ElementCount(table),
                                    SliceBytes(links_.scheduler()))
                          .status());
    }
    RETURN_IF_ERROR(CheckTableOptimizers(job_, request.tables()));
    RETURN_IF_ERROR(CheckJobOptimizerIsUsed(job_, request.tables()));
    RETURN_IF_ERROR(CheckSparseTables(job_, request.tables()));
    own_arrays_ = request.own_arrays();
    tables_ = request.tables();
  }
  RETURN_IF_ERROR(CheckSameTables(request.tables(), tables_, "the first worker",
                                  "start every worker with the same job"));
  return CheckSameOwnArrays(request.own_arrays(), own_arrays_, "the first worker");
}

absl::StatusOr<uint32_t> JobState::RegisterWorker(const v1::RegisterWorkerRequest& request) {
  if (absl::Status status = TakeTables(request); !status.ok()) {
    last_refusal_ =
        PrintableText(absl::StrCat("a worker on ", request.host(), ": ", status.message()))
            .substr(0, kMostRefusalBytes);
    events_.push_back(absl::StrCat("refused ", last_refusal_));
    return status;
  }
  return Register(kWorker, Incarnation(request.incarnation()), /*address=*/{}, request.host(),
                  request.may_enter_late(),
                  request.has_rank() ? std::make_optional(request.rank()) : std::nullopt);
}

absl::Status JobState::CheckRank(uint32_t rank) const {
  const uint32_t workers = job_.cluster().num_workers();
  if (rank >= workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: expected 0 to ", workers - 1, ", as the job has ", workers,
                     workers == 1 ? " worker" : " workers", ", got ", rank,
                     "; correct RANK, or raise cluster.num_workers and start the job again"));
  }
  if (view_.phase() == v1::REGISTERING && rank < members_.workers().size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another process has registered as worker ", rank, "; give each worker a rank of its own"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> JobState::Register(Role role, Incarnation incarnation,
                                            const ServerAddress& address, const std::string& host,
                                            bool may_enter_late, std::optional<uint32_t> rank) {
  if (host.size() > kMostHostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("host: expected at most ", kMostHostBytes, " bytes, got ", host.size()));
  }
  if (const auto id = members_.FindIncarnation(role, incarnation)) {
    RETURN_IF_ERROR(members_.Find({role, *id}, incarnation).status());
    return *id;
  }
  // Exchanges that it sent in its first life may still be on their way.
  if (role == kWorker && members_.IsReplaced(incarnation)) {
    return absl::FailedPreconditionError(
        "this process was a worker of the job before, and another one has taken its place; start a "
        "new process");
  }
  if (has_ended()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job has ended already (", view_.phase() == v1::DONE ? "it is done" : view_.reason(),
        "); start the coordinator again first"));
  }
  if (rank.has_value()) RETURN_IF_ERROR(CheckRank(*rank));
  if (may_enter_late && view_.phase() == v1::TRAINING) return Replace(incarnation, rank);
  if (may_enter_late && has_trained()) {
    return absl::FailedPreconditionError(
        "the job's workers have done their steps: it needs no other worker any more");
  }
  ASSIGN_OR_RETURN(const uint32_t id, members_.Add(role, incarnation, address, host));
  if (role == kWorker && !restored_.path.empty()) {
    const Step first_step(restored_.manifest.workers(static_cast<int>(id)).first_step());
    members_.OfRole(role)[id].first_step = first_step;
    latest_first_step_ = std::max(latest_first_step_, first_step);
  }
  events_.push_back(absl::StrCat(MemberName({role, id}), " has registered",
                                 address.grpc.empty() ? "" : " at ", address.grpc));
  Advance();
  Publish();
  return id;
}

absl::StatusOr<uint32_t> JobState::Replace(Incarnation incarnation, std::optional<uint32_t> rank) {
  ASSIGN_OR_RETURN(const uint32_t id, members_.TakePlaceOfDeadWorker(incarnation, rank));
  entering_.Begin(id, incarnation);
  events_.push_back(absl::StrCat("another worker takes the place of ", MemberName({kWorker, id})));
  Publish();
  return id;
}

bool JobState::EnterWorkers() {
  const auto ready = entering_.TakeReady(members_.servers().size());
  for (const auto& [id, first_step] : ready) {
    members_.OfRole(kWorker).at(id).first_step = first_step;
    latest_first_step_ = std::max(latest_first_step_, first_step);
    events_.emplace_back(
        absl::StrCat(MemberName({kWorker, id}), " enters at step ", first_step.value()),
        first_step.value());
  }
  return !ready.empty();
}

absl::Status JobState::ReportFailure(const v1::ReportFailureRequest& request) {
  if (request.before_registering()) return ReportEarlyFailure(request);
  const MemberKey key{request.role(), request.id()};
  RETURN_IF_ERROR(members_.Find(key, Incarnation(request.incarnation())).status());
  const std::string what = absl::StrCat(MemberName(key), ": ", ReasonOf(request));
  if (result_.has_value() && key.role == kWorker) {
    events_.emplace_back(absl::StrCat(what, "; its work is done"), std::nullopt, ReasonOf(request));
  } else {
    Fail(what);
  }
  return absl::OkStatus();
}

absl::Status JobState::ReportEarlyFailure(const v1::ReportFailureRequest& request) {
  RETURN_IF_ERROR(CheckRole(request.role()));
  const std::string what = absl::StrCat("a ", RoleName(request.role()),
                                        " failed before it registered: ", ReasonOf(request));
  if (view_.phase() == v1::REGISTERING && members_.Lacks(request.role())) {
    Fail(what);
  } else {
    // It was one too many, or the others go on without it.
    events_.emplace_back(what, std::nullopt, ReasonOf(request));
  }
  return absl::OkStatus();
}

void JobState::DeclareDead(MemberKey key) {
  Member& member = members_.OfRole(key.role).at(key.id);
  if (has_ended() || !member.is_live()) return;
  const std::string silence = absl::StrCat(job_.membership().lease_seconds(), " s");
  member.end = absl::StrCat("was declared dead because it was silent for ", silence,
                            "; raise membership.lease_seconds if it was only slow");
  if (key.role == kServer) {
    v1::CheckpointStatus checkpoints;
    checkpoint_.WriteTo(checkpoints);
    const char* const advice = !checkpoints.newest().empty() ? "go on with --restore=latest"
                               : !restored_.path.empty()     ? "restore the same checkpoint again"
                                                             : "start the job again";
    return Fail(absl::StrCat(MemberName(key), " (", member.address.grpc, ") has been silent for ",
                             silence, " (lease); its shards are lost: see its log, and ", advice));
  }
  const std::string reason = absl::StrCat("silent for ", silence, " (lease)");
  const std::string what = absl::StrCat(MemberName(key), " has been ", reason);
  if (!result_.has_value()) return LoseWorker(key.id, what, reason);
  events_.emplace_back(absl::StrCat(what, "; its work is done"), std::nullopt, reason);
  Publish();
}

void JobState::Leave(uint32_t worker) {
  if (has_ended() || has_trained()) return;
  Member& member = members_.OfRole(kWorker).at(worker);
  member.has_done_its_steps = job_.stay() && HasFinished(member.progress);
  const std::string reason = absl::StrCat(
      member.has_done_its_steps ? "has done its steps" : kAskedToEnd, ", and has left");
  member.end = reason;
  LoseWorker(worker, absl::StrCat(MemberName({kWorker, worker}), " ", reason), reason);
}

void JobState::LoseWorker(uint32_t worker, const std::string& what, const std::string& reason) {
  entering_.Forget(worker);
  if (view_.phase() == v1::REGISTERING || view_.phase() == v1::PLACING) {
    return Fail(absl::StrCat(what, " before training began: see its log, and start the job again"));
  }
  const bool is_last = !members_.LowestLiveWorker().has_value();
  if (is_last && !job_.stay()) {
    return Fail(absl::StrCat(
        what, " and was the last live worker: see the workers' logs, and start the job again"));
  }
  const bool is_lost = members_.OfRole(kWorker).at(worker).is_lost();
  const bool changes_bits = is_lost && HasBspStepsLeft(Status(/*with_tables=*/false));
  if (changes_bits && !job_.membership().allow_other_bits()) {
    return Fail(absl::StrCat(
        what, "; under bsp the others could go on with other bits only (--allow_other_bits)"));
  }
  has_other_bits_ = has_other_bits_ || changes_bits;
  events_.emplace_back(absl::StrCat(what, is_last ? "; the job stays, and waits for other workers"
                                                  : "; the others go on"),
                       members_.OfRole(kWorker).at(worker).progress.steps_done(), reason);
  death_version_ = view_.version() + 1;
  if (view_.phase() == v1::EVALUATING) view_.set_evaluator(*members_.LowestLiveWorker());
  Advance();
  Publish();
}

absl::Time JobState::registration_deadline() const {
  const bool is_waiting = view_.phase() == v1::REGISTERING && !members_.is_complete();
  return is_waiting ? registration_deadline_ : absl::InfiniteFuture();
}

void JobState::CheckRegistration() {
  if (clock_.Now() < registration_deadline()) return;
  Fail(
      absl::StrCat("after ", job_.membership().registration_seconds(),
                   " s (--registration_seconds) ", members_.RollCall(),
                   " (workers register when they have read their data): see the logs of these, and "
                   "start the job again",
                   last_refusal_.empty() ? "" : "; refused: ", last_refusal_));
}

std::vector<MemberKey> JobState::LiveMembers() const {
  std::vector<MemberKey> live;
  for (const v1::ServerInfo& server : view_.servers()) {
    if (server.is_live()) live.push_back({kServer, server.server()});
  }
  for (const v1::WorkerInfo& worker : view_.workers()) {
    if (worker.is_live()) live.push_back({kWorker, worker.worker()});
  }
  return live;
}

}  // namespace capstan
