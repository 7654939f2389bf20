// Traces of two processes, and their merge.
#include "common/trace/merge_traces.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::FuzzInput input(data, size);
  const capstan::MemoryFile first(input.TakePart());
  const capstan::MemoryFile second(input.rest());
  capstan::MergeTraces({first.path(), second.path()}, "/dev/null").IgnoreError();
  return 0;
}
