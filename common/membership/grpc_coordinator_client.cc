#include "common/membership/grpc_coordinator_client.h"

#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/host_port.h"
#include "common/base/printable_text.h"
#include "common/base/process_limits.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "common/membership/retrying_coordinator.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

// For calls with a reply after all servers have acted.
constexpr absl::Duration kAgreementTimeout = absl::Seconds(30);

// For a checkpoint: disks may be slow.
constexpr absl::Duration kCheckpointTimeout = absl::Hours(1);

absl::Status AgreementTimeoutError() {
  return absl::DeadlineExceededError(absl::StrCat(
      "the coordinator has not told for ", absl::FormatDuration(kAgreementTimeout),
      " that all servers have agreed on the change's first step: one of them may hang or be gone. "
      "The change stays pending and comes when they have; capstan status shows it"));
}

absl::Status CheckpointTimeoutError() {
  return absl::DeadlineExceededError(absl::StrCat(
      "the checkpoint is not complete after ", absl::FormatDuration(kCheckpointTimeout),
      "; it goes on, and capstan status shows when it is"));
}

// The parts of a call; they live until its reply.
template <typename Request>
struct OpenCall {
  GrpcCoordinatorLinks::LinkPointer link;
  grpc::ClientContext context;
  Request request;
  ReplyOf<Request> reply;
  CoordinatorEndpoint::Callback<CoordinatorReply> done;
  absl::Status late;  // the error if the reply comes too late
};

// A longer try is given up and repeated, over another connection if need be.
constexpr absl::Duration kLongestTry = absl::Seconds(5);

absl::Status CheckVersion(const v1::GetJobReply& reply, const std::string& address) {
  const std::string& version = reply.version();
  const uint32_t wire_version = std::max(reply.wire_version(), 1u);
  if (version == kVersion && wire_version == kWireVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("coordinator ", address, ": expected version ", kVersion,
                   " with messages of version ", kWireVersion, ", as this program has it, got ",
                   version.empty() ? "an older one"
                                   : absl::StrCat(PrintableText(version), " with ", wire_version),
                   "; use programs of one version on all machines"));
}

}  // namespace

GrpcCoordinatorClient::GrpcCoordinatorClient(std::vector<std::string> addresses, Clock& clock,
                                             absl::Duration timeout, SecurityPointer security)
    : security_(std::move(security)),
      clock_(clock),
      timeout_(timeout),
      links_(std::move(addresses), security_, clock) {}

GrpcCoordinatorClient::~GrpcCoordinatorClient() {
  std::map<grpc::ClientContext*, std::shared_ptr<grpc::ClientContext>> open;
  {
    MutexLock lock(&mu_);
    is_closing_ = true;
    open = open_;
  }
  for (const auto& [context, call] : open) {
    if (call != nullptr) call->TryCancel();
  }
  open.clear();
  MutexLock lock(&mu_);
  while (!open_.empty()) clock_.WaitUntil(mu_, all_closed_, absl::InfiniteFuture());
}

void GrpcCoordinatorClient::Call(CoordinatorRequest request, Callback<CoordinatorReply> done) {
  LinkPointer link = links_.current();
  if (const absl::Status status = links_.CheckReady(link); !status.ok()) {
    links_.NoteFailure(link, status);
    links_.Return(std::move(link));
    return done(status);
  }
  const auto* const beat = std::get_if<v1::HeartbeatRequest>(&request);
  if (beat != nullptr && beat->part() == 0) Attend(*beat, link);
  Limit limit = LimitOf(request);
  std::visit([&](auto& one) { Send(std::move(one), link, std::move(limit), std::move(done)); },
             request);
  links_.Return(std::move(link));
}

void GrpcCoordinatorClient::Attend(const v1::HeartbeatRequest& member, const LinkPointer& link) {
  const std::pair<Member, const GrpcCoordinatorLinks::Link*> key{
      {member.role(), member.id(), member.incarnation()}, link.get()};
  {
    MutexLock lock(&mu_);
    if (!attending_.insert(key).second) return;
  }
  v1::AttendRequest request;
  request.set_role(member.role());
  request.set_id(member.id());
  request.set_incarnation(member.incarnation());
  // When it ends, the next heartbeat opens another one.
  Send(std::move(request), link, {absl::InfiniteDuration(), absl::OkStatus()},
       [this, key](const absl::StatusOr<CoordinatorReply>&) {
         MutexLock lock(&mu_);
         attending_.erase(key);
       });
}

GrpcCoordinatorClient::Limit GrpcCoordinatorClient::LimitOf(const CoordinatorRequest& request) {
  // Not UNAVAILABLE, so that the call is not repeated: the caller has waited long enough.
  if (std::holds_alternative<v1::SetConsistencyRequest>(request)) {
    return {kAgreementTimeout, AgreementTimeoutError()};
  }
  if (std::holds_alternative<v1::CheckpointRequest>(request)) {
    return {kCheckpointTimeout, CheckpointTimeoutError()};
  }
  absl::Duration timeout = timeout_;
  if (std::holds_alternative<v1::HeartbeatRequest>(request)) {
    MutexLock lock(&mu_);
    // Another coordinator may have begun the lease when this one hung.
    const absl::Duration half_lease = absl::Seconds(membership_.lease_seconds()) / 2;
    if (links_.has_several()) timeout = std::min(timeout, half_lease);
    timeout += absl::Seconds(membership_.heartbeat_seconds());  // parked at most
  }
  return {timeout, absl::UnavailableError("the coordinator did not answer in time")};
}

template <typename Request>
void GrpcCoordinatorClient::Send(Request request, const LinkPointer& link, Limit limit,
                                 Callback<CoordinatorReply> done) {
  auto owner = std::make_shared<OpenCall<Request>>();
  OpenCall<Request>* const call = owner.get();
  call->link = link;
  call->context.set_deadline(absl::ToChronoTime(clock_.Now() + limit.timeout));
  const auto name = absl::StripSuffix(Request::descriptor()->name(), "Request");
  security_->Authorize(kCoordinatorAudience, name, call->context);
  call->request = std::move(request);
  if constexpr (std::is_same_v<ReplyOf<Request>, v1::RegisterReply>) {
    call->request.set_wire_version(kWireVersion);
  }
  if (!Open({std::move(owner), &call->context})) {
    return done(absl::CancelledError("this process is shutting down"));
  }
  call->done = std::move(done);
  call->late = std::move(limit.error);
  grpc::TemplatedGenericStub<Request, ReplyOf<Request>>(link->channel)
      .UnaryCall(&call->context,
                 absl::StrCat("/", v1::CoordinatorService::service_full_name(), "/", name),
                 grpc::StubOptions(), &call->request, &call->reply,
                 [this, call](const grpc::Status& status) {
                   auto done = std::move(call->done);
                   LinkPointer link = std::move(call->link);
                   absl::Status error = status.ok() ? NoteAnswer(call->reply, link)
                                                    : ErrorOf(status, call->late, link);
                   if (error.ok()) {
                     done(CoordinatorReply(std::move(call->reply)));
                   } else {
                     done(std::move(error));
                   }
                   done = nullptr;  // before Close lets the destructor return
                   Close(&call->context, std::move(link));
                 });
}

bool GrpcCoordinatorClient::Open(std::shared_ptr<grpc::ClientContext> context) {
  MutexLock lock(&mu_);
  if (is_closing_) return false;
  grpc::ClientContext* const key = context.get();
  open_.emplace(key, std::move(context));
  return true;
}

void GrpcCoordinatorClient::Close(grpc::ClientContext* context, LinkPointer link) {
  std::shared_ptr<grpc::ClientContext> call;
  {
    MutexLock lock(&mu_);
    call = std::move(open_.at(context));
  }
  call = nullptr;  // It holds the channel. The link must be the last that does.
  links_.Return(std::move(link));
  MutexLock lock(&mu_);
  open_.erase(context);
  all_closed_.NotifyAll();
}

absl::Status GrpcCoordinatorClient::ErrorOf(const grpc::Status& status, const absl::Status& late,
                                            const LinkPointer& link) {
  absl::Status error = MeaningOf(status, late, link->address);
  if (!absl::IsUnavailable(error)) return error;
  if (links_.has_several()) error = Annotate(error, link->address);
  links_.NoteFailure(link, error);
  return error;
}

absl::Status GrpcCoordinatorClient::MeaningOf(const grpc::Status& status, const absl::Status& late,
                                              const std::string& address) {
  const absl::Status error = AbslStatus(status);
  if (absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error)) {
    RETURN_IF_ERROR(CheckOpenFiles());  // It could not even call.
  }
  switch (error.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return late;
    case absl::StatusCode::kUnimplemented:
      return absl::UnimplementedError(
          "what answers is not a coordinator of this version; check that --coordinator is right");
    case absl::StatusCode::kCancelled: {
      MutexLock lock(&mu_);
      if (is_closing_) return error;
      return absl::UnavailableError("the coordinator is shutting down");
    }
    case absl::StatusCode::kUnavailable: {
      {
        MutexLock lock(&mu_);
        if (has_been_answered_) return error;
      }
      return security_->Explain(address, error);
    }
    // The caller waits for the end of the coordinator's own errors with this code.
    case absl::StatusCode::kResourceExhausted:
      if (!absl::StrContains(error.message(), "message larger than max")) return error;
      return absl::InvalidArgumentError(
          absl::StrCat(error.message(),
                       "; a model with many tables needs a job with a larger limits.message_bytes: "
                       "start it again with --field=limits.message_bytes=64M"));
    default:
      return error;
  }
}

template <typename Reply>
absl::Status GrpcCoordinatorClient::NoteAnswer(const Reply& reply, const LinkPointer& link) {
  links_.NoteAnswer(link);
  absl::Status same_version;
  if constexpr (std::is_same_v<Reply, v1::GetJobReply>) {
    same_version = CheckVersion(reply, link->address);
  }
  MutexLock lock(&mu_);
  has_been_answered_ = true;
  if constexpr (std::is_same_v<Reply, v1::GetJobReply>) {
    membership_ = reply.job().membership();
  }
  return same_version;
}

absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> ConnectToCoordinator(
    CoordinatorOptions options, Clock* clock, Random jitter) {
  if (options.addresses.empty()) {
    return absl::InvalidArgumentError("expected --coordinator=HOST:PORT, got none");
  }
  ASSIGN_OR_RETURN(std::vector<std::string> addresses,
                   ParseAddresses("--coordinator", options.addresses));
  if (!(options.rpc_deadline > absl::ZeroDuration())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rpc_deadline_seconds: expected more than 0, got ",
                     absl::ToDoubleSeconds(options.rpc_deadline)));
  }
  RetryingCoordinator::Options retrying;
  // So often is each address tried.
  retrying.longest_pause /= static_cast<int64_t>(addresses.size());
  retrying.address = std::move(options.addresses);
  retrying.rpc_deadline = options.rpc_deadline;
  retrying.first_deadline = options.first_deadline;
  retrying.is_member = options.is_member;
  retrying.absence = options.absence;
  retrying.is_ending = std::move(options.is_ending);
  auto client = std::make_unique<GrpcCoordinatorClient>(std::move(addresses), *clock,
                                                        std::min(options.rpc_deadline, kLongestTry),
                                                        std::move(options.security));
  return std::make_unique<RetryingCoordinator>(std::move(retrying), *clock, jitter,
                                               std::move(client));
}

}  // namespace capstan
