#include "common/membership/grpc_coordinator_client.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/host_port.h"
#include "common/base/open_files.h"
#include "common/base/printable_text.h"
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

absl::Status TimeoutError() {
  return absl::UnavailableError("the coordinator did not answer in time");
}

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
template <typename Request, typename Reply>
struct Call {
  grpc::ClientContext context;
  Request request;
  Reply reply;
  CoordinatorEndpoint::Callback<Reply> done;
};

// A longer try is given up and repeated, over another connection if need be.
constexpr absl::Duration kLongestTry = absl::Seconds(5);

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const GrpcSecurity& security) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A coordinator that was started again may have another address. The default is 30 s.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  arguments.SetMaxReceiveMessageSize(kMaxViewBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the environment would configure it
  return grpc::CreateCustomChannel(address, security.channel_credentials(), arguments);
}

}  // namespace

GrpcCoordinatorClient::GrpcCoordinatorClient(const std::string& address, Clock& clock,
                                             absl::Duration timeout, SecurityPointer security)
    : address_(address),
      security_(std::move(security)),
      stub_(v1::CoordinatorService::NewStub(MakeChannel(address, *security_))),
      clock_(clock),
      timeout_(timeout),
      heartbeat_interval_(absl::Seconds(v1::MembershipSpec().heartbeat_seconds())) {}

GrpcCoordinatorClient::~GrpcCoordinatorClient() {
  std::map<grpc::ClientContext*, std::shared_ptr<grpc::ClientContext>> open;
  {
    MutexLock lock(&mu_);
    is_closing_ = true;
    open = open_;
  }
  for (const auto& [context, call] : open) context->TryCancel();
  open.clear();
  MutexLock lock(&mu_);
  while (!open_.empty()) clock_.WaitUntil(mu_, all_closed_, absl::InfiniteFuture());
}

template <typename Request, typename Reply>
void GrpcCoordinatorClient::Send(Method<Request, Reply> method, absl::Duration timeout,
                                 Request request, Callback<Reply> done) {
  auto owner = std::make_shared<Call<Request, Reply>>();
  Call<Request, Reply>* const call = owner.get();
  call->context.set_deadline(absl::ToChronoTime(clock_.Now() + timeout));
  security_->Authorize(kCoordinatorAudience,
                       absl::StripSuffix(Request::descriptor()->name(), "Request"), call->context);
  call->request = std::move(request);
  if (!Open({std::move(owner), &call->context})) {
    return done(absl::CancelledError("this process is shutting down"));
  }
  call->done = std::move(done);
  (stub_->async()->*method)(&call->context, &call->request, &call->reply,
                            [this, call](const grpc::Status& status) {
                              auto done = std::move(call->done);
                              if (status.ok()) {
                                NoteAnswer();
                                done(std::move(call->reply));
                              } else {
                                done(ErrorOf(status));
                              }
                              done = nullptr;  // before Close lets the destructor return
                              Close(&call->context);
                            });
}

bool GrpcCoordinatorClient::Open(std::shared_ptr<grpc::ClientContext> context) {
  MutexLock lock(&mu_);
  if (is_closing_) return false;
  grpc::ClientContext* const key = context.get();
  open_.emplace(key, std::move(context));
  return true;
}

void GrpcCoordinatorClient::Close(grpc::ClientContext* context) {
  MutexLock lock(&mu_);
  open_.erase(context);
  all_closed_.NotifyAll();
}

absl::Status GrpcCoordinatorClient::ErrorOf(const grpc::Status& status) {
  const absl::Status error = AbslStatus(status);
  if (absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error)) {
    RETURN_IF_ERROR(CheckOpenFiles());  // It could not even call.
  }
  switch (error.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return TimeoutError();
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
      return security_->Explain(address_, error);
    }
    // The caller waits for the end of the coordinator's own errors with this code.
    case absl::StatusCode::kResourceExhausted:
      if (!absl::StrContains(error.message(), "message larger than max")) return error;
      return absl::InvalidArgumentError(absl::StrCat(
          error.message(),
          "; a model with many tables needs a job with a larger --message_bytes: start it again"));
    default:
      return error;
  }
}

void GrpcCoordinatorClient::NoteAnswer() {
  MutexLock lock(&mu_);
  has_been_answered_ = true;
}

absl::Status GrpcCoordinatorClient::CheckVersion(const v1::GetJobReply& reply) const {
  const std::string& version = reply.version();
  const uint32_t wire_version = std::max(reply.wire_version(), 1u);
  if (version == kVersion && wire_version == kWireVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("coordinator ", address_, ": expected version ", kVersion,
                   " with messages of version ", kWireVersion, ", as this program has it, got ",
                   version.empty() ? "an older one"
                                   : absl::StrCat(PrintableText(version), " with ", wire_version),
                   "; use programs of one version on all machines"));
}

void GrpcCoordinatorClient::GetJob(v1::GetJobRequest request, Callback<v1::GetJobReply> done) {
  Send<v1::GetJobRequest, v1::GetJobReply>(
      &Stub::async::GetJob, timeout_, std::move(request),
      [this, done = std::move(done)](absl::StatusOr<v1::GetJobReply> reply) mutable {
        if (!reply.ok()) return done(std::move(reply));
        if (absl::Status same = CheckVersion(*reply); !same.ok()) return done(same);
        {
          MutexLock lock(&mu_);
          heartbeat_interval_ = absl::Seconds(reply->job().membership().heartbeat_seconds());
        }
        done(std::move(reply));
      });
}

void GrpcCoordinatorClient::RegisterServer(v1::RegisterServerRequest request,
                                           Callback<v1::RegisterReply> done) {
  request.set_wire_version(kWireVersion);
  Send<v1::RegisterServerRequest, v1::RegisterReply>(&Stub::async::RegisterServer, timeout_,
                                                     std::move(request), std::move(done));
}

void GrpcCoordinatorClient::RegisterWorker(v1::RegisterWorkerRequest request,
                                           Callback<v1::RegisterReply> done) {
  request.set_wire_version(kWireVersion);
  Send<v1::RegisterWorkerRequest, v1::RegisterReply>(&Stub::async::RegisterWorker, timeout_,
                                                     std::move(request), std::move(done));
}

void GrpcCoordinatorClient::Heartbeat(v1::HeartbeatRequest request,
                                      Callback<v1::HeartbeatReply> done) {
  absl::Duration parked_at_most;
  {
    MutexLock lock(&mu_);
    parked_at_most = heartbeat_interval_;
  }
  Send<v1::HeartbeatRequest, v1::HeartbeatReply>(&Stub::async::Heartbeat, parked_at_most + timeout_,
                                                 std::move(request), std::move(done));
}

void GrpcCoordinatorClient::ReportFailure(v1::ReportFailureRequest request,
                                          Callback<v1::ReportFailureReply> done) {
  Send<v1::ReportFailureRequest, v1::ReportFailureReply>(&Stub::async::ReportFailure, timeout_,
                                                         std::move(request), std::move(done));
}

void GrpcCoordinatorClient::ReportResult(v1::ReportResultRequest request,
                                         Callback<v1::ReportResultReply> done) {
  Send<v1::ReportResultRequest, v1::ReportResultReply>(&Stub::async::ReportResult, timeout_,
                                                       std::move(request), std::move(done));
}

void GrpcCoordinatorClient::GetStatus(v1::GetStatusRequest request,
                                      Callback<v1::GetStatusReply> done) {
  Send<v1::GetStatusRequest, v1::GetStatusReply>(&Stub::async::GetStatus, timeout_,
                                                 std::move(request), std::move(done));
}

void GrpcCoordinatorClient::SetConsistency(v1::SetConsistencyRequest request,
                                           Callback<v1::SetConsistencyReply> done) {
  Send<v1::SetConsistencyRequest, v1::SetConsistencyReply>(
      &Stub::async::SetConsistency, kAgreementTimeout, std::move(request),
      [done = std::move(done)](absl::StatusOr<v1::SetConsistencyReply> reply) mutable {
        // Not UNAVAILABLE, so that the call is not repeated: the caller has waited long enough.
        if (reply.status() == TimeoutError()) reply = AgreementTimeoutError();
        done(std::move(reply));
      });
}

void GrpcCoordinatorClient::Checkpoint(v1::CheckpointRequest request,
                                       Callback<v1::CheckpointReply> done) {
  Send<v1::CheckpointRequest, v1::CheckpointReply>(
      &Stub::async::Checkpoint, kCheckpointTimeout, std::move(request),
      [done = std::move(done)](absl::StatusOr<v1::CheckpointReply> reply) mutable {
        // As above, the call is not repeated.
        if (reply.status() == TimeoutError()) reply = CheckpointTimeoutError();
        done(std::move(reply));
      });
}

void GrpcCoordinatorClient::ReadClock(v1::ReadClockRequest request,
                                      Callback<v1::ReadClockReply> done) {
  Send<v1::ReadClockRequest, v1::ReadClockReply>(&Stub::async::ReadClock, timeout_,
                                                 std::move(request), std::move(done));
}

absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> ConnectToCoordinator(
    const std::string& address, absl::Duration rpc_deadline, Clock* clock, Random jitter,
    SecurityPointer security, absl::Duration first_deadline) {
  if (address.empty()) {
    return absl::InvalidArgumentError("expected --coordinator=HOST:PORT, got none");
  }
  RETURN_IF_ERROR(ParseHostPort("--coordinator", address).status());
  if (!(rpc_deadline > absl::ZeroDuration())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rpc_deadline_seconds: expected more than 0, got ", absl::ToDoubleSeconds(rpc_deadline)));
  }
  RetryingCoordinator::Options options;
  options.address = address;
  options.rpc_deadline = rpc_deadline;
  options.first_deadline = first_deadline;
  return std::make_unique<RetryingCoordinator>(
      options, *clock, jitter,
      std::make_unique<GrpcCoordinatorClient>(address, *clock, std::min(rpc_deadline, kLongestTry),
                                              std::move(security)));
}

}  // namespace capstan
