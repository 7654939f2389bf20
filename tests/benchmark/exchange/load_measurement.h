#ifndef TESTS_BENCHMARK_EXCHANGE_LOAD_MEASUREMENT_H_
#define TESTS_BENCHMARK_EXCHANGE_LOAD_MEASUREMENT_H_

#include <benchmark/benchmark.h>

#include "tests/benchmark/exchange/server_load.h"

namespace capstan {

// Both report counters of one thread: us of a run, its operations per_s, the traffic's gb_per_s,
// memcpy_gb_per_s when memcpy reads and writes as much memory, and the share of_memcpy.

// Runs `load` and copies in turn: both see the same machine. Reports medians.
void MeasureInTurn(benchmark::State& state, ServerLoad& load);

// Runs `load` all the time, then copies: threads with a common lock meet there. Reports means,
// because a thread waits for a lock seldom and long.
void MeasureApart(benchmark::State& state, ServerLoad& load);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_EXCHANGE_LOAD_MEASUREMENT_H_
