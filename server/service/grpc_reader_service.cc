#include "server/service/grpc_reader_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {

grpc::ServerUnaryReactor* GrpcReaderService::ReadRows(grpc::CallbackServerContext* context,
                                                      const v1::ReadRowsRequest* request,
                                                      v1::ReadRowsReply* reply) {
  absl::Status status;
  if (guard_ != nullptr) status = guard_->Admit(*context, "ReadRows").status();
  if (status.ok()) {
    absl::StatusOr<v1::ReadRowsReply> rows = server_.ReadRows(*request);
    status = rows.status();
    if (rows.ok()) *reply = *std::move(rows);
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(GrpcStatus(status));
  return reactor;
}

}  // namespace capstan
