#ifndef TESTS_BENCHMARK_LOAD_MEASUREMENT_H_
#define TESTS_BENCHMARK_LOAD_MEASUREMENT_H_

#include <benchmark/benchmark.h>

#include "tests/benchmark/server_load.h"

namespace capstan {

// Both report counters of one thread: us of a run, its operations per_s, the traffic's gb_per_s,
// the memcpy_gb_per_s at which as much memory is read and written, and the share of_memcpy.

// Runs `load` and copies in turn, so that both see the same machine; reports medians.
void MeasureInTurn(benchmark::State& state, ServerLoad& load);

// Runs `load`, then copies, so that threads that share something meet there; reports means: who
// waits for a lock does so seldom and long.
void MeasureApart(benchmark::State& state, ServerLoad& load);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_LOAD_MEASUREMENT_H_
