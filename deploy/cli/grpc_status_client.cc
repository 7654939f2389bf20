#include "deploy/cli/grpc_status_client.h"

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace capstan {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(2);

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  // The http_proxy of the environment is not for a job's own processes.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

GrpcStatusClient::GrpcStatusClient(const std::string& address, Clock* clock)
    : address_(address),
      clock_(clock),
      stub_(v1::CoordinatorService::NewStub(MakeChannel(address))) {}

absl::StatusOr<v1::GetStatusReply> GrpcStatusClient::GetStatus() {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(clock_->Now() + kDeadline));
  v1::GetStatusReply reply;
  const grpc::Status status = stub_->GetStatus(&context, v1::GetStatusRequest(), &reply);
  if (status.ok()) return reply;
  // The two libraries number their codes alike.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat("coordinator ", address_, ": expected its status, got \"",
                                   status.error_message(),
                                   "\"; check that the job runs and that the address is right"));
}

}  // namespace capstan
