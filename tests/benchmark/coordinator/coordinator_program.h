#ifndef TESTS_BENCHMARK_COORDINATOR_COORDINATOR_PROGRAM_H_
#define TESTS_BENCHMARK_COORDINATOR_COORDINATOR_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/launch/child_process.h"

namespace capstan {

// Bytes over TCP connections, without the headers of TCP and below.
struct TcpBytes {
  uint64_t sent = 0;
  uint64_t received = 0;
};

// The real coordinator in a process of its own. The destructor kills it, and removes its log. Used
// by one thread.
class CoordinatorProgram {
 public:
  // Starts it with these flags at a free port of loopback, and waits until it listens. UNAVAILABLE,
  // with the last error of its log, if it does not.
  static absl::StatusOr<std::unique_ptr<CoordinatorProgram>> Start(std::vector<std::string> flags);
  ~CoordinatorProgram();

  const std::string& address() const { return address_; }  // host:port
  // Its CPU time so far, over all cores.
  absl::Duration CpuTime() const;
  // Its resident memory now.
  int64_t MemoryBytes() const;
  // Over this process's open connections to it, so far, as the kernel has counted them.
  TcpBytes BytesOfConnections() const;

 private:
  explicit CoordinatorProgram(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;  // of its log and its port
  std::unique_ptr<ChildProcess> process_;
  std::string address_;
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COORDINATOR_COORDINATOR_PROGRAM_H_
