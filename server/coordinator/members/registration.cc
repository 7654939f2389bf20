#include "server/coordinator/members/registration.h"

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr Role kServer = v1::HeartbeatRequest::SERVER;
constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

constexpr size_t kMostHostBytes = 200;
constexpr size_t kMostRefusalBytes = 1000;

absl::Duration RegistrationTime(const v1::MembershipSpec& membership) {
  if (membership.registration_seconds() == 0) return absl::InfiniteDuration();
  return absl::Seconds(membership.registration_seconds());
}

}  // namespace

Registration::Registration(JobFacts& facts)
    : facts_(facts), deadline_(facts.clock.Now() + RegistrationTime(facts.job.membership())) {}

absl::StatusOr<Registration::Place> Registration::AddServer(
    const v1::RegisterServerRequest& request, JobEvents& events) {
  RETURN_IF_ERROR(CheckAddress(request.address()));
  return Add(ServerOf(request), events);
}

Registration::Newcomer Registration::ServerOf(const v1::RegisterServerRequest& request) {
  Newcomer server;
  server.role = kServer;
  server.incarnation = Incarnation(request.incarnation());
  server.address = {request.address()};
  server.host = request.host();
  return server;
}

std::optional<uint32_t> Registration::FindEnded(const v1::RegisterServerRequest& request) const {
  const Newcomer newcomer = ServerOf(request);
  const MemberRegistry& members = facts_.members;
  if (!facts_.is_running() || !facts_.has_copies() || !CheckNewcomer(newcomer).ok()) {
    return std::nullopt;
  }
  if (members.FindIncarnation(kServer, newcomer.incarnation).has_value()) return std::nullopt;
  for (uint32_t id = 0; id < members.servers().size(); ++id) {
    const Member& server = members.servers()[id];
    if (server.is_live() && server.address.grpc == newcomer.address.grpc) return id;
  }
  return std::nullopt;
}

absl::StatusOr<Registration::Place> Registration::AddWorker(
    const v1::RegisterWorkerRequest& request, uint64_t slice_bytes, JobEvents& events) {
  const bool is_first = facts_.members.workers().empty();
  if (absl::Status status = facts_.tables.Take(request, is_first, slice_bytes); !status.ok()) {
    last_refusal_ =
        PrintableText(absl::StrCat("a worker on ", request.host(), ": ", status.message()))
            .substr(0, kMostRefusalBytes);
    events.emplace_back(absl::StrCat("refused ", last_refusal_));
    return status;
  }
  Newcomer worker;
  worker.role = kWorker;
  worker.incarnation = Incarnation(request.incarnation());
  worker.host = request.host();
  worker.may_enter_late = request.may_enter_late();
  if (request.has_rank()) worker.rank = request.rank();
  return Add(worker, events);
}

std::optional<uint32_t> Registration::Before(const v1::RegisterWorkerRequest& request) const {
  const auto next = static_cast<uint32_t>(facts_.members.workers().size());
  const bool is_early = facts_.view.phase() == v1::REGISTERING && request.has_rank() &&
                        request.rank() > next &&
                        request.rank() < facts_.job.cluster().num_workers();
  return is_early ? std::make_optional(next) : std::nullopt;
}

absl::StatusOr<Registration::Place> Registration::Add(const Newcomer& newcomer, JobEvents& events) {
  MemberRegistry& members = facts_.members;
  if (const auto id = members.FindIncarnation(newcomer.role, newcomer.incarnation)) {
    RETURN_IF_ERROR(members.Find({newcomer.role, *id}, newcomer.incarnation).status());
    return Place{*id, Place::Kind::kKnown};
  }
  RETURN_IF_ERROR(CheckNewcomer(newcomer));
  // Before the training nobody is known to be lost, but it may ask again.
  const v1::Phase phase = facts_.view.phase();
  const bool is_early = phase == v1::REGISTERING || phase == v1::PLACING;
  if (newcomer.may_enter_late && (phase == v1::TRAINING || (is_early && !members.Lacks(kWorker)))) {
    ASSIGN_OR_RETURN(const uint32_t id,
                     members.TakePlaceOfDeadWorker(newcomer.incarnation, newcomer.rank));
    events.emplace_back(
        absl::StrCat("another worker takes the place of ", MemberName({kWorker, id})));
    return Place{id, Place::Kind::kOfDeadWorker};
  }
  if (newcomer.may_enter_late && facts_.has_trained()) {
    return absl::FailedPreconditionError(
        "the job's workers have done their steps: it needs no other worker any more");
  }
  const bool lacks_server = members.LiveServerCount() < members.servers().size();
  if (newcomer.role == kServer && facts_.is_running()) {
    if (lacks_server) return TakePlaceOfDeadServer(newcomer, events);
    if (facts_.has_copies()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the job has its ", members.servers().size(),
                       " servers already, and all are live: start one server less, or wait for the "
                       "lease of a lost one to run out"));
    }
  }
  ASSIGN_OR_RETURN(const uint32_t id, members.Add(newcomer.role, newcomer.incarnation,
                                                  newcomer.address, newcomer.host));
  if (newcomer.role == kWorker && !facts_.restored.is_empty()) {
    const auto& workers = facts_.restored.manifest.workers();
    members.BeginAt(id, Step(workers[static_cast<int>(id)].first_step()));
  }
  events.emplace_back(absl::StrCat(MemberName({newcomer.role, id}), " has registered",
                                   newcomer.address.grpc.empty() ? "" : " at ",
                                   newcomer.address.grpc));
  return Place{id, Place::Kind::kNew};
}

absl::StatusOr<Registration::Place> Registration::TakePlaceOfDeadServer(const Newcomer& newcomer,
                                                                        JobEvents& events) {
  if (facts_.view.phase() == v1::SAVING) {
    return absl::FailedPreconditionError(
        "the job writes its result (--output): it needs no other server any more");
  }
  const std::optional<uint32_t> id =
      facts_.members.TakePlaceOfDeadServer(newcomer.incarnation, newcomer.address, newcomer.host);
  CHECK(id.has_value());
  events.emplace_back(absl::StrCat("another server takes the place of ", MemberName({kServer, *id}),
                                   ", at ", newcomer.address.grpc));
  return Place{*id, Place::Kind::kOfDeadServer};
}

absl::Status Registration::CheckNewcomer(const Newcomer& newcomer) const {
  if (newcomer.host.size() > kMostHostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("host: expected at most ", kMostHostBytes,
                                                   " bytes, got ", newcomer.host.size()));
  }
  // What it sent in its first life may still be on its way.
  if (facts_.members.IsReplaced(newcomer.incarnation)) {
    return absl::FailedPreconditionError(
        absl::StrCat("this process was a ", RoleName(newcomer.role),
                     " of the job before, and another one has taken its place; start a new "
                     "process"));
  }
  if (facts_.has_ended()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job has ended already (",
                     facts_.view.phase() == v1::DONE ? "it is done" : facts_.view.reason(),
                     "); start the coordinator again first"));
  }
  return newcomer.rank.has_value() ? CheckRank(*newcomer.rank) : absl::OkStatus();
}

absl::Status Registration::CheckRank(uint32_t rank) const {
  const uint32_t workers = facts_.job.cluster().num_workers();
  if (rank >= workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: expected 0 to ", workers - 1, ", as the job has ", workers,
                     workers == 1 ? " worker" : " workers", ", got ", rank,
                     "; correct RANK, or raise cluster.num_workers and start the job again"));
  }
  if (facts_.view.phase() == v1::REGISTERING && rank < facts_.members.workers().size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another process has registered as worker ", rank, "; give each worker a rank of its own"));
  }
  return absl::OkStatus();
}

absl::Time Registration::deadline() const {
  const bool is_waiting = facts_.view.phase() == v1::REGISTERING && !facts_.members.is_complete();
  return is_waiting ? deadline_ : absl::InfiniteFuture();
}

std::string Registration::MissingText() const {
  return absl::StrCat(
      "after ", facts_.job.membership().registration_seconds(), " s (--registration_seconds) ",
      facts_.members.RollCall(),
      " (workers register when they have read their data): see the logs of these, and start the "
      "job again",
      last_refusal_.empty() ? "" : "; refused: ", last_refusal_);
}

}  // namespace capstan
