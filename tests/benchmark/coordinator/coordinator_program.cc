#include "tests/benchmark/coordinator/coordinator_program.h"

#include <glog/logging.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/host_port.h"
#include "common/base/status_macros.h"
#include "deploy/launch/local_job.h"
#include "tests/process/peak_memory.h"

namespace capstan {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// Waits for the file's only line. An error if the process ends before.
absl::StatusOr<std::string> AwaitLine(const std::string& path, ChildProcess& process,
                                      const std::string& log) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (!process.Poll().has_value() && absl::Now() < deadline) {
    std::ifstream file(path);
    std::string line;
    if (std::getline(file, line)) return line;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return absl::UnavailableError(
      absl::StrCat("the coordinator does not listen: ", LastErrorLine(log)));
}

// The port of the other end; 0: it is no TCP connection.
int PeerPort(int descriptor) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return 0;
  if (peer.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(peer).sin_port);
  // gRPC's connections to addresses of IPv4 are of this family, too.
  if (peer.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(peer).sin6_port);
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorProgram>> CoordinatorProgram::Start(
    std::vector<std::string> flags) {
  std::string folder = std::filesystem::temp_directory_path() / "coordinator_benchmark_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot make the folder ", folder));
  }
  auto program = std::unique_ptr<CoordinatorProgram>(new CoordinatorProgram(folder));
  const std::string port_file = folder + "/port";
  ChildProcess::Options options;
  ASSIGN_OR_RETURN(const std::string own, OwnProgramPath());
  ASSIGN_OR_RETURN(options.program, FindProgram(own, "server/capstan_coordinator"));
  options.args = std::move(flags);
  options.args.push_back("--listen=127.0.0.1:0");
  options.args.push_back("--port_file=" + port_file);
  options.log_path = folder + "/coordinator.log";
  ASSIGN_OR_RETURN(program->process_, ChildProcess::Start(options));
  ASSIGN_OR_RETURN(program->address_, AwaitLine(port_file, *program->process_, options.log_path));
  return program;
}

CoordinatorProgram::~CoordinatorProgram() {
  process_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

absl::Duration CoordinatorProgram::CpuTime() const {
  clockid_t clock;
  timespec time;
  CHECK_EQ(clock_getcpuclockid(process_->pid(), &clock), 0);
  CHECK_EQ(clock_gettime(clock, &time), 0);
  return absl::DurationFromTimespec(time);
}

int64_t CoordinatorProgram::MemoryBytes() const { return capstan::MemoryBytes(process_->pid()); }

TcpBytes CoordinatorProgram::BytesOfConnections() const {
  const int port = ParseHostPort("the coordinator", address_)->port;
  TcpBytes bytes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int descriptor = -1;
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (!absl::SimpleAtoi(entry.path().filename().string(), &descriptor)) continue;
    if (PeerPort(descriptor) != port) continue;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    bytes.sent += info.tcpi_bytes_sent;
    bytes.received += info.tcpi_bytes_received;
  }
  return bytes;
}

}  // namespace capstan
