// Headers of safetensors files. A header that is read is within its file.
#include <glog/logging.h>

#include "common/model_file/safetensors.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const capstan::FuzzInput input(data, size);
  const auto json = input.rest();
  for (const uint64_t data_bytes : {0, 4, 36, 1000}) {
    const uint64_t file_bytes = 8 + json.size() + data_bytes;
    const auto file = capstan::DecodeSafetensorsHeader(json, file_bytes);
    if (!file.ok()) continue;
    uint64_t end = file->header_bytes;
    for (const capstan::Safetensors::Tensor& tensor : file->tensors) {
      CHECK_EQ(tensor.offset, end);
      end += tensor.bytes;
    }
    CHECK_EQ(end, file_bytes);
  }
  return 0;
}
