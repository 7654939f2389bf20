#ifndef SERVER_SERVICE_GRPC_PARAMETER_SERVICE_H_
#define SERVER_SERVICE_GRPC_PARAMETER_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "common/transport/parameter_endpoint.h"
#include "proto/parameter_service.grpc.pb.h"

namespace capstan {

// The gRPC skin of an endpoint: reads frames where gRPC put them, writes values where they lie. No
// thread waits. `endpoint` is borrowed and outlives the gRPC server. Thread-safe.
class GrpcParameterService final
    : public v1::ParameterService::WithRawCallbackMethod_Exchange<v1::ParameterService::Service> {
 public:
  explicit GrpcParameterService(ParameterEndpoint* endpoint) : endpoint_(endpoint) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* context) override;

 private:
  ParameterEndpoint* const endpoint_;
};

}  // namespace capstan

#endif  // SERVER_SERVICE_GRPC_PARAMETER_SERVICE_H_
