#ifndef TESTS_INTEGRATION_TRACE_FILE_H_
#define TESTS_INTEGRATION_TRACE_FILE_H_

#include <map>
#include <string>
#include <vector>

namespace capstan {

// One bar of a trace. Times are in microseconds.
struct TracedSpan {
  std::string process;  // "worker 1"
  std::string name;
  double begin = 0;
  double end = 0;
  std::map<std::string, double> args;
};

// An exchange with its phases.
struct TracedExchange : TracedSpan {
  std::vector<TracedSpan> phases;
};

// The parsed output of `capstan trace`.
struct TraceFile {
  std::map<std::string, std::vector<TracedSpan>> tracks;  // by process and track
  std::vector<TracedExchange> exchanges;
  std::map<std::string, double> clock_uncertainty;  // of each process
};

// Reads the file. Fails the test if the format is wrong, or if an exchange or a phase has no begin
// or no end.
TraceFile ReadTrace(const std::string& path);

// Fails the test if two spans overlap without nesting.
void ExpectNested(const std::vector<TracedSpan>& spans, const std::string& track);

}  // namespace capstan

#endif  // TESTS_INTEGRATION_TRACE_FILE_H_
