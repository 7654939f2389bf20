// capstan_worker: trains a share of a job's data against its parameter servers.
#include <memory>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/membership/grpc_coordinator_connection.h"
#include "common/transport/grpc_endpoint.h"
#include "common/transport/grpc_logging.h"
#include "common/transport/retrying_endpoint.h"
#include "kernels/cpu/blas_threads.h"
#include "worker/runtime/worker.h"

ABSL_FLAG(std::string, coordinator, "", "host:port of the job's coordinator; required");
ABSL_FLAG(double, rpc_deadline_seconds, 30,
          "seconds for which a coordinator that cannot be reached is tried again");

namespace capstan {
namespace {

// A gRPC connection that tries again for as long as the job says.
std::unique_ptr<ParameterEndpoint> Connect(const v1::JobSpec& job, ServerId server,
                                           const std::string& address, Clock* clock) {
  RetryingEndpoint::Options options;
  options.clock = clock;
  options.peer = absl::StrCat("server ", server.value(), " (", address, ")");
  options.rpc_deadline = absl::Seconds(job.membership().rpc_deadline_seconds());
  options.seed = SystemRandom();
  return std::make_unique<RetryingEndpoint>(options,
                                            std::make_unique<GrpcEndpoint>(address, clock));
}

absl::Status Work() {
  RealClock clock;
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorEndpoint> coordinator,
                   ConnectToCoordinator(absl::GetFlag(FLAGS_coordinator),
                                        absl::Seconds(absl::GetFlag(FLAGS_rpc_deadline_seconds)),
                                        &clock, Random(SystemRandom())));
  Worker::Options options;
  options.clock = &clock;
  options.coordinator = coordinator.get();
  options.incarnation = Incarnation(SystemRandom());
  options.connect = [&clock](const v1::JobSpec& job, ServerId server, const std::string& address) {
    return Connect(job, server, address, &clock);
  };
  return Worker(std::move(options)).Run();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "trains a share of a job's data against its parameter servers.\n"
                       "  capstan_worker --coordinator=HOST:PORT");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) {
    capstan::EndProgram("capstan_worker", parsed, /*is_usage_error=*/true);
  }
  capstan::SendGrpcLogsToVlog();
  capstan::UseOneBlasThread();
  capstan::EndProgram("capstan_worker", capstan::Work());
}
