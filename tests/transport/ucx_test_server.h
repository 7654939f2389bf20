#ifndef TESTS_TRANSPORT_UCX_TEST_SERVER_H_
#define TESTS_TRANSPORT_UCX_TEST_SERVER_H_

#include <memory>
#include <string>

#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/reply_order.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/ucx_transport.h"

namespace capstan {

// Serves exchanges over UCX. Workers open them through a gRPC port of this machine.
class UcxTestServer {
 public:
  // All outlive the server.
  UcxTestServer(UcxTransport* ucx, ParameterEndpoint* endpoint)
      : listener_(ucx->Listen(endpoint, ReplyOrder())),
        service_(listener_.get()),
        server_(GrpcServer::Start("127.0.0.1:0", {&service_}).value()) {}

  const std::string& address() const { return server_->address(); }
  void EndConnections() { listener_->EndAll(); }

 private:
  const std::unique_ptr<UcxTransport::Listener> listener_;
  GrpcUcxService service_;
  const std::unique_ptr<GrpcServer> server_;
};

}  // namespace capstan

#endif  // TESTS_TRANSPORT_UCX_TEST_SERVER_H_
