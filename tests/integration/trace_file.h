#ifndef TESTS_INTEGRATION_TRACE_FILE_H_
#define TESTS_INTEGRATION_TRACE_FILE_H_

#include <map>
#include <string>
#include <vector>

namespace capstan {

// A part of a trace that a person sees as a bar. Times in microseconds.
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

// A trace as `capstan trace` writes it, taken apart.
struct TraceFile {
  std::map<std::string, std::vector<TracedSpan>> tracks;  // by process and track
  std::vector<TracedExchange> exchanges;
  std::map<std::string, double> clock_uncertainty;  // of each process
};

// Reads the file, and fails the test where it is not as the format says, or has an exchange whose
// two ends, or whose phases' ends, are not there.
TraceFile ReadTrace(const std::string& path);

// Fails the test unless any two spans nest or do not touch each other.
void ExpectNested(const std::vector<TracedSpan>& spans, const std::string& track);

}  // namespace capstan

#endif  // TESTS_INTEGRATION_TRACE_FILE_H_
