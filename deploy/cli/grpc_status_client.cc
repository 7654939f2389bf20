#include "deploy/cli/grpc_status_client.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/base/process_limits.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

constexpr absl::Duration kDeadline = absl::Seconds(2);

// Makes each text of the message, at any depth, safe for a terminal.
void MakePrintable(Message& message) {
  const Reflection* const reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field->is_repeated()) {
      for (int i = 0; i < count; ++i) {
        MakePrintable(*reflection->MutableRepeatedMessage(&message, field, i));
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      MakePrintable(*reflection->MutableMessage(&message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated()) {
      reflection->SetString(&message, field, PrintableText(reflection->GetString(message, field)));
    }
  }
}

}  // namespace

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address, const GrpcSecurity& security) {
  grpc::ChannelArguments arguments;
  // A job's own processes are never behind http_proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxViewBytes);
  return grpc::CreateCustomChannel(address, security.channel_credentials(), arguments);
}

GrpcStatusClient::GrpcStatusClient(const std::string& address, Clock* clock,
                                   SecurityPointer security)
    : address_(address),
      clock_(clock),
      security_(std::move(security)),
      stub_(v1::CoordinatorService::NewStub(ChannelTo(address, *security_))) {}

void GrpcStatusClient::Begin(const std::string& method, grpc::ClientContext& context) const {
  security_->Authorize(kCoordinatorAudience, method, context);
  context.set_deadline(absl::ToChronoTime(clock_->Now() + kDeadline));
}

absl::Status GrpcStatusClient::ErrorOf(const grpc::Status& status,
                                       const std::string& expected) const {
  absl::Status error = AbslStatus(status);
  const bool is_absent = absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
  if (absl::Status files = CheckOpenFiles(); is_absent && !files.ok()) return files;
  if (is_absent) error = security_->Explain(address_, error);
  if (absl::IsUnauthenticated(error) || absl::IsPermissionDenied(error)) return error;
  return absl::Status(
      error.code(),
      absl::StrCat("coordinator ", address_, ": expected ", expected, ", got \"", error.message(),
                   "\"",
                   is_absent ? "; check that the job runs and that the address is right" : ""));
}

absl::StatusOr<v1::GetStatusReply> GrpcStatusClient::GetStatus(bool with_tables) {
  grpc::ClientContext context;
  Begin("GetStatus", context);
  v1::GetStatusRequest request;
  request.set_without_tables(!with_tables);
  v1::GetStatusReply reply;
  const grpc::Status status = stub_->GetStatus(&context, request, &reply);
  if (!status.ok()) return ErrorOf(status, "its status");
  MakePrintable(reply);
  return reply;
}

absl::Status GrpcStatusClient::ReportEarlyFailure(v1::HeartbeatRequest::Role role,
                                                  const std::string& reason) {
  grpc::ClientContext context;
  Begin("ReportFailure", context);
  v1::ReportFailureRequest request;
  request.set_role(role);
  request.set_reason(CutText(reason));
  request.set_before_registering(true);
  v1::ReportFailureReply reply;
  const grpc::Status status = stub_->ReportFailure(&context, request, &reply);
  return status.ok() ? absl::OkStatus() : ErrorOf(status, "an answer to a report");
}

}  // namespace capstan
