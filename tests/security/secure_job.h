#ifndef TESTS_SECURITY_SECURE_JOB_H_
#define TESTS_SECURITY_SECURE_JOB_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/real_clock.h"
#include "tests/integration/job_processes.h"
#include "tests/transport/test_keys.h"

namespace capstan {

// A BSP job of real programs: a coordinator, a server and two workers. Its last worker starts when
// the test says so, so the job cannot end before.
class SecureJob {
 public:
  // `keys`: the folder of keys of all processes; empty: none. Starts all but worker-1, and waits
  // until they have registered. `job_flags` are more flags of the coordinator.
  SecureJob(const std::string& keys, int steps, const std::vector<std::string>& job_flags = {});

  void StartLastWorker() { StartWorker("worker-1"); }
  // Waits for a good end. Returns the hash of the parameters; empty after a failure of the test.
  std::string AwaitHash();

  JobProcesses& processes() { return processes_; }
  const std::string& coordinator() const { return processes_.coordinator_address(); }
  const std::string& server() const { return server_; }
  // Whether the coordinator has ended.
  bool has_ended() { return processes_.HasEnded("coordinator"); }
  // The largest memory of the server and of the coordinator so far, added up, in bytes. Of one that
  // has ended: as of the last call.
  int64_t PeakBytes();

 private:
  void StartWorker(const std::string& name);

  std::vector<std::string> keys_flag_;
  JobProcesses processes_;
  std::string server_;
  std::map<std::string, int64_t> peak_bytes_;  // by name
};

}  // namespace capstan

#endif  // TESTS_SECURITY_SECURE_JOB_H_
