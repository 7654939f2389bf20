// exchange_server: a server of one slice for job 42, without a coordinator. It tests clients in
// other languages. The slice has 4 elements, zero at first, under SGD with learning rate 1. Worker
// 0 is the only member.
#include <iostream>

#include "common/base/program.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "tests/transport/test_shard_host.h"

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0], "says its address, and serves until its standard input ends");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("exchange_server", parsed, /*is_usage_error=*/true);
  const auto host = capstan::MakeTestHost(capstan::ConsistencyMode::kAsync, /*num_workers=*/1,
                                          /*elements=*/4);
  capstan::GrpcParameterService service(host.get());
  const auto server = capstan::GrpcServer::Start("127.0.0.1:0", {&service});
  if (!server.ok()) capstan::EndProgram("exchange_server", server.status());
  std::cout << (*server)->address() << std::endl;
  std::cin.ignore(1);
  (*server)->Shutdown(absl::UnixEpoch());
  capstan::ExitProgram(0);
}
