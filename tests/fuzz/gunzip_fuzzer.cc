// Compressed data files.
#include <glog/logging.h>

#include "tests/fuzz/fuzz_input.h"
#include "worker/dataset/gzip_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  const capstan::FuzzInput input(data, size);
  const auto text = capstan::Gunzip(input.rest(), {kMaxBytes});
  if (text.ok()) CHECK_LE(text->size(), kMaxBytes);
  return 0;
}
