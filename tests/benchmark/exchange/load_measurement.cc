#include "tests/benchmark/exchange/load_measurement.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace capstan {
namespace {

// memcpy through as much memory as a load.
class Copies {
 public:
  explicit Copies(uint64_t memory_bytes) : from_(memory_bytes / 2, 1), to_(memory_bytes / 2, 2) {}

  // Copies until it has read and written `traffic_bytes` or more. Returns the time of that many.
  double SecondsOf(uint64_t traffic_bytes) {
    const uint64_t copies = (traffic_bytes + 2 * from_.size() - 1) / (2 * from_.size());
    const absl::Time begin = absl::Now();
    for (uint64_t i = 0; i < copies; ++i) {
      std::memcpy(to_.data(), from_.data(), from_.size());
      benchmark::ClobberMemory();
    }
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    return seconds * static_cast<double>(traffic_bytes) /
           static_cast<double>(2 * copies * from_.size());
  }

 private:
  std::vector<char> from_;
  std::vector<char> to_;
};

double SecondsOf(ServerLoad& load) {
  const absl::Time begin = absl::Now();
  load.Run();
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

double Median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

// Reports for one thread. The seconds are of one run.
void Report(benchmark::State& state, const ServerLoad& load, double seconds, double copy_seconds,
            double of_memcpy) {
  const auto traffic = static_cast<double>(load.traffic_bytes());
  const std::pair<const char*, double> figures[] = {
      {"us", seconds * 1e6},
      {"per_s", static_cast<double>(load.operations()) / seconds},
      {"gb_per_s", traffic / seconds / 1e9},
      {"memcpy_gb_per_s", traffic / copy_seconds / 1e9},
      {"of_memcpy", of_memcpy}};
  for (const auto& [name, value] : figures) {
    state.counters[name] = {value, benchmark::Counter::kAvgThreads};
  }
}

}  // namespace

void MeasureInTurn(benchmark::State& state, ServerLoad& load) {
  Copies copies(load.memory_bytes());
  std::vector<double> times, copy_times, shares;
  for (auto unused : state) {
    times.push_back(SecondsOf(load));
    copy_times.push_back(copies.SecondsOf(load.traffic_bytes()));
    shares.push_back(copy_times.back() / times.back());
    state.SetIterationTime(times.back());
  }
  Report(state, load, Median(times), Median(copy_times), Median(shares));
}

void MeasureApart(benchmark::State& state, ServerLoad& load) {
  Copies copies(load.memory_bytes());
  double runs = 0, seconds = 0, copy_seconds = 0;
  for (auto unused : state) {
    const double of_run = SecondsOf(load);
    seconds += of_run;
    runs += 1;
    state.SetIterationTime(of_run);
  }
  for (double i = 0; i < runs; ++i) copy_seconds += copies.SecondsOf(load.traffic_bytes());
  Report(state, load, seconds / runs, copy_seconds / runs, copy_seconds / seconds);
}

}  // namespace capstan
