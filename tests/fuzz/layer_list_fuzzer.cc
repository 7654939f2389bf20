// Lists of tensors for `--field=model.replay.layers`.
#include <glog/logging.h>

#include "tests/fuzz/fuzz_input.h"
#include "worker/models/replay/layer_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const capstan::FuzzInput input(data, size);
  const auto tensors = capstan::ParseLayerList(input.rest(), "fuzz");
  if (tensors.ok()) CHECK(!tensors->empty());
  return 0;
}
