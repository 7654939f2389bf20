#include "deploy/cli/grpc_status_client.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/base/process_limits.h"
#include "common/base/status_macros.h"
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

bool IsAbsent(const absl::Status& error) {
  return absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
}

}  // namespace

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address, const GrpcSecurity& security) {
  grpc::ChannelArguments arguments;
  // A job's own processes are never behind http_proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A coordinator that was started again is found soon. The default is up to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetMaxReceiveMessageSize(kMaxViewBytes);
  return grpc::CreateCustomChannel(address, security.channel_credentials(), arguments);
}

GrpcStatusClient::GrpcStatusClient(const std::string& addresses, Clock* clock,
                                   SecurityPointer security)
    : addresses_(addresses), clock_(clock), security_(std::move(security)) {
  for (const absl::string_view address : absl::StrSplit(addresses, ',')) {
    places_.push_back({std::string(address), v1::CoordinatorService::NewStub(
                                                 ChannelTo(std::string(address), *security_))});
  }
}

absl::Status GrpcStatusClient::CallAt(const Place& place, const std::string& method,
                                      Call call) const {
  grpc::ClientContext context;
  security_->Authorize(kCoordinatorAudience, method, context);
  context.set_deadline(absl::ToChronoTime(clock_->Now() + kDeadline));
  return AbslStatus(call(*place.stub, context));
}

absl::Status GrpcStatusClient::CallInTurn(const std::string& method, const std::string& expected,
                                          Call call) {
  size_t first;
  {
    MutexLock lock(&mu_);
    first = last_;
  }
  absl::Status error;
  for (size_t i = 0; i < places_.size(); ++i) {
    const size_t at = (first + i) % places_.size();
    error = CallAt(places_[at], method, call);
    if (IsAbsent(error)) continue;
    MutexLock lock(&mu_);
    last_ = at;
    return error.ok() ? error : ErrorAt(places_[at].address, error, expected);
  }
  return ErrorAt(addresses_, error, expected);
}

absl::Status GrpcStatusClient::ErrorAt(const std::string& address, absl::Status error,
                                       const std::string& expected) const {
  const bool is_absent = IsAbsent(error);
  if (absl::Status files = CheckOpenFiles(); is_absent && !files.ok()) return files;
  for (size_t i = 0; is_absent && i < places_.size() && IsAbsent(error); ++i) {
    error = security_->Explain(places_[i].address, error);
  }
  if (absl::IsUnauthenticated(error) || absl::IsPermissionDenied(error)) return error;
  return absl::Status(
      error.code(),
      absl::StrCat("coordinator ", address, ": expected ", expected, ", got \"", error.message(),
                   "\"",
                   is_absent ? "; check that the job runs and that the address is right. If a "
                               "coordinator with --state was lost, start it again with the same "
                               "flags: servers and workers wait for it"
                             : ""));
}

absl::StatusOr<v1::GetStatusReply> GrpcStatusClient::GetStatus(bool with_tables) {
  v1::GetStatusRequest request;
  request.set_without_tables(!with_tables);
  v1::GetStatusReply reply;
  RETURN_IF_ERROR(CallInTurn("GetStatus", "its status", [&](auto& stub, auto& context) {
    return stub.GetStatus(&context, request, &reply);
  }));
  MakePrintable(reply);
  return reply;
}

absl::Status GrpcStatusClient::ReportEarlyFailure(v1::HeartbeatRequest::Role role,
                                                  const std::string& reason) {
  v1::ReportFailureRequest request;
  request.set_role(role);
  request.set_reason(CutText(reason));
  request.set_before_registering(true);
  v1::ReportFailureReply reply;
  return CallInTurn("ReportFailure", "an answer to a report", [&](auto& stub, auto& context) {
    return stub.ReportFailure(&context, request, &reply);
  });
}

}  // namespace capstan
