// Data files of numbers separated by commas.
#include <glog/logging.h>

#include "tests/fuzz/fuzz_input.h"
#include "worker/dataset/csv_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::FuzzInput input(data, size);
  capstan::CsvOptions options;
  const uint8_t choice = input.TakeByte();
  options.has_header = (choice & 1) != 0;
  options.label_column = choice / 2 % 8 - 2;
  options.classes = choice / 16;
  const auto dataset = capstan::ParseCsv(input.rest(), "fuzz", options);
  if (!dataset.ok()) return 0;
  CHECK_EQ(dataset->features.size(), dataset->size() * dataset->feature_count);
  return 0;
}
