#ifndef TESTS_SIMULATION_SIMULATED_STATE_FOLDER_H_
#define TESTS_SIMULATION_SIMULATED_STATE_FOLDER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "server/coordinator/state/memory_state_folder.h"
#include "server/coordinator/state/state_folder.h"
#include "tests/simulation/simulated_process.h"

namespace capstan {

// The folder of a coordinator's state as one process sees it. Each operation takes time before and
// after it happens, and may fail, done or not. A dead process does nothing. Guarded by the baton.
class SimulatedStateFolder : public StateFolder {
 public:
  struct Options {
    absl::Duration max_time;  // of half an operation; uniform from 0
    double failures = 0;      // probability of each operation
  };

  // `random` and `process` outlive the folder. Operations run on threads of the process. `middle`
  // is called when one has happened, and has not returned.
  SimulatedStateFolder(const Options& options, std::shared_ptr<MemoryStateFolder::Content> content,
                       Random* random, SimulatedProcess* process, std::function<void()> middle);

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status Write(const std::string& path, absl::string_view bytes) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;

 private:
  void Before();
  // The result, after the second half of the operation.
  template <typename Result>
  Result After(Result result);

  const Options options_;
  Random& random_;
  SimulatedProcess& process_;
  const std::function<void()> middle_;
  MemoryStateFolder folder_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_STATE_FOLDER_H_
