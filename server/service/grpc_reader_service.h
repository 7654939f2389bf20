#ifndef SERVER_SERVICE_GRPC_READER_SERVICE_H_
#define SERVER_SERVICE_GRPC_READER_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include "common/transport/grpc/call_guard.h"
#include "proto/reader_service.grpc.pb.h"
#include "server/service/parameter_server.h"

namespace capstan {

// Answers readers of a server's parameters over gRPC. They need the right to read. Thread-safe.
class GrpcReaderService : public v1::ReaderService::CallbackService {
 public:
  // Both outlive the gRPC server. `guard` decides who may read; null: everybody.
  GrpcReaderService(ParameterServer* server, CallGuard* guard) : server_(*server), guard_(guard) {}

  grpc::ServerUnaryReactor* ReadRows(grpc::CallbackServerContext* context,
                                     const v1::ReadRowsRequest* request,
                                     v1::ReadRowsReply* reply) override;

 private:
  ParameterServer& server_;
  CallGuard* const guard_;
};

}  // namespace capstan

#endif  // SERVER_SERVICE_GRPC_READER_SERVICE_H_
