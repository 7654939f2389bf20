// The two files of a data set in MNIST's format, plain or gzip.
#include <glog/logging.h>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file.h"
#include "worker/dataset/idx_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::FuzzInput input(data, size);
  const int classes = input.TakeByte();
  const capstan::MemoryFile labels(input.TakePart());
  const capstan::MemoryFile images(input.rest());
  const auto dataset = capstan::ReadIdx({images.path(), labels.path()}, classes);
  if (!dataset.ok()) return 0;
  CHECK_EQ(dataset->features.size(), dataset->size() * dataset->feature_count);
  return 0;
}
