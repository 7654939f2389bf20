#ifndef TESTS_BENCHMARK_MACHINE_CANARY_H_
#define TESTS_BENCHMARK_MACHINE_CANARY_H_

#include <cstdint>

namespace capstan {

// What this machine does at the moment, for figures that are measured beside it. To be called
// before any thread is made.

// Of one core, 64 MiB at a time, median of 9: bytes copied a second / 10^9.
double MemcpyGigabytesPerSecond();

// Messages of `bytes` to and fro between two processes over loopback TCP, one at a time, for 0.5 s:
// bytes of both directions a second / 10^9.
double TcpGigabytesPerSecond(uint64_t bytes);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_MACHINE_CANARY_H_
