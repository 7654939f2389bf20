#ifndef TESTS_TRANSPORT_GRPC_SERVICE_FIXTURE_H_
#define TESTS_TRANSPORT_GRPC_SERVICE_FIXTURE_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "proto/parameter_service.grpc.pb.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {

inline constexpr uint64_t kElements = 4;

// A gRPC server with a shard host behind it: one worker, asynchronous, kElements parameters.
class GrpcServiceFixture : public testing::Test {
 protected:
  GrpcServiceFixture()
      : host_(MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/1, kElements)),
        service_(host_.get()),
        server_(GrpcServer::Start("127.0.0.1:0", {&service_}).value()) {}

  std::shared_ptr<grpc::Channel> Channel() {
    return grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  }
  ExchangeReply Exchange(ParameterEndpoint& endpoint, ExchangeRequest request) {
    OneShot<ExchangeReply> reply(&clock_);
    endpoint.Exchange(
        std::move(request), [] {},
        [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
    return reply.Wait();
  }

  RealClock clock_;
  std::unique_ptr<ShardHost> host_;
  GrpcParameterService service_;
  std::unique_ptr<GrpcServer> server_;
};

// A push and pull of worker 0, in generated code.
inline v1::ExchangeRequest GeneratedPush(uint64_t request_id, int64_t step, float value) {
  v1::ExchangeRequest request;
  request.mutable_header()->set_request_id(request_id);
  request.mutable_header()->set_job(kTestJob);
  request.mutable_header()->set_incarnation(100);
  request.mutable_header()->set_epoch(1);
  request.mutable_header()->mutable_dense_step()->set_push_step(step);
  request.mutable_header()->mutable_dense_step()->set_pull_step(step + 1);
  const std::vector<float> gradient(kElements, value);
  request.set_payload(gradient.data(), gradient.size() * sizeof(float));
  return request;
}

}  // namespace capstan

#endif  // TESTS_TRANSPORT_GRPC_SERVICE_FIXTURE_H_
