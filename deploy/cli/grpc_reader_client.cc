#include "deploy/cli/grpc_reader_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/transport/grpc/grpc_setup.h"
#include "deploy/cli/grpc_status_client.h"

namespace capstan {
namespace {

// Rows of 1,024 values over a slow link.
constexpr absl::Duration kDeadline = absl::Seconds(10);

}  // namespace

GrpcReaderClient::GrpcReaderClient(const std::string& address, Clock* clock,
                                   SecurityPointer security)
    : address_(address),
      clock_(clock),
      security_(std::move(security)),
      stub_(v1::ReaderService::NewStub(ChannelTo(address, *security_))) {}

absl::StatusOr<v1::ReadRowsReply> GrpcReaderClient::ReadRows(const v1::ReadRowsRequest& request) {
  grpc::ClientContext context;
  security_->Authorize(/*audience=*/address_, "ReadRows", context);
  context.set_deadline(absl::ToChronoTime(clock_->Now() + kDeadline));
  v1::ReadRowsReply reply;
  const grpc::Status status = stub_->ReadRows(&context, request, &reply);
  if (!status.ok()) {
    const absl::Status error = security_->Explain(address_, AbslStatus(status));
    return absl::Status(error.code(), absl::StrCat("server ", address_, ": expected rows, got \"",
                                                   PrintableText(error.message()), "\""));
  }
  if (reply.rows_size() == request.keys_size()) return reply;
  return absl::InternalError(absl::StrCat("server ", address_, ": expected ", request.keys_size(),
                                          " rows, got ", reply.rows_size()));
}

}  // namespace capstan
