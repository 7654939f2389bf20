#ifndef TESTS_METRICS_METRICS_JOB_H_
#define TESTS_METRICS_METRICS_JOB_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/integration/job_processes.h"
#include "tests/metrics/samples.h"

namespace capstan {

// A job of real programs that all serve metrics.
class MetricsJob {
 public:
  // In a new folder.
  MetricsJob();

  // Starts a coordinator with these job flags, then "server-0" ..., "worker-0" ....
  void Start(std::vector<std::string> job_flags, int num_servers, int num_workers);
  // Starts a server or a worker under `name`.
  void StartMember(const std::string& name, const std::string& program);

  // host:port of the metrics of `name`, from its log.
  std::string Address(const std::string& name);
  // The page of `name`; empty if it does not answer.
  std::string Page(const std::string& name);
  Samples Scrape(const std::string& name) { return ParseSamples(Page(name)); }
  // Scrapes `name` until `is_true`. Fails the test, with the last page, if that takes too long.
  Samples ScrapeUntil(const std::string& name, const std::function<bool(Samples&)>& is_true);

  JobProcesses& processes() { return processes_; }

 private:
  JobProcesses processes_;
};

}  // namespace capstan

#endif  // TESTS_METRICS_METRICS_JOB_H_
