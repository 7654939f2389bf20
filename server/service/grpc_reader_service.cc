#include "server/service/grpc_reader_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {

grpc::ServerUnaryReactor* GrpcReaderService::ReadRows(grpc::CallbackServerContext* context,
                                                      const v1::ReadRowsRequest* request,
                                                      v1::ReadRowsReply* reply) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  absl::Status admitted;
  if (guard_ != nullptr) admitted = guard_->Admit(*context, "ReadRows").status();
  if (!admitted.ok()) {
    reactor->Finish(GrpcStatus(admitted));
    return reactor;
  }
  server_.ReadRows(*request, [reactor, reply](absl::StatusOr<v1::ReadRowsReply> rows) {
    if (rows.ok()) *reply = *std::move(rows);
    reactor->Finish(GrpcStatus(rows.status()));
  });
  return reactor;
}

}  // namespace capstan
