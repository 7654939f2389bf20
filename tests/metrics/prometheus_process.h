#ifndef TESTS_METRICS_PROMETHEUS_PROCESS_H_
#define TESTS_METRICS_PROMETHEUS_PROCESS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/integration/job_processes.h"

namespace capstan {

// Debian's Prometheus on a free port, as another process of a job, with the configuration and the
// rules of deploy/prometheus. Scrapes its own targets every 500 ms, as the job "capstan". Not
// thread-safe. Fails the test (throws nothing) when an answer is missing or is no JSON.
class PrometheusProcess {
 public:
  // `processes` outlives this object.
  explicit PrometheusProcess(JobProcesses* processes) : processes_(*processes) {}

  // Waits until it is ready.
  void Start();
  // From now on, also scrapes this host:port. Before Start, or after it.
  void AddTarget(const std::string& address);

  // The result of an expression now. Each has "metric" and "value". Null if it has an error.
  nlohmann::json Query(const std::string& expression);
  // The only value of an expression; none if there is no value, or there are several.
  std::optional<double> Value(const std::string& expression);
  // The series of an expression since Start, a value for each second. Null if it has an error.
  nlohmann::json History(const std::string& expression);
  // Waits until the expression has a value, and that passes Prometheus's own comparison: as in
  // "sum(up) == 5".
  bool WaitFor(const std::string& expression, absl::Duration timeout);
  // The groups of rules, with what each last evaluation did.
  nlohmann::json RuleGroups();

 private:
  // The "data" of the answer to this call of its HTTP interface. Null if it has an error.
  nlohmann::json Get(const std::string& path_and_query);

  JobProcesses& processes_;
  std::vector<std::string> targets_;
  absl::Time started_;
  uint16_t port_ = 0;
};

}  // namespace capstan

#endif  // TESTS_METRICS_PROMETHEUS_PROCESS_H_
