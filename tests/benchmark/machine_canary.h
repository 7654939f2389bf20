#ifndef TESTS_BENCHMARK_MACHINE_CANARY_H_
#define TESTS_BENCHMARK_MACHINE_CANARY_H_

#include <cstdint>

namespace capstan {

// What this machine does at the moment, for figures that are measured beside it. To be called
// before any thread is made.

// Of one core, 64 MiB at a time, median of 9: bytes copied a second / 10^9.
double MemcpyGigabytesPerSecond();

// Of messages to and fro between two processes over loopback TCP.
struct TcpFigures {
  double gb_per_s = 0;      // bytes of both directions a second / 10^9
  double cpu_s_per_gb = 0;  // of both processes
};

// Messages of `bytes`, one at a time, for 0.5 s: sockets alone, which read into memory that is used
// again.
TcpFigures MeasureTcp(uint64_t bytes);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_MACHINE_CANARY_H_
