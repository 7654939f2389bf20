// Requests over HTTP, to the live page or for probes and metrics: heads and forms.
#include <glog/logging.h>

#include "common/net/http_text.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const capstan::FuzzInput input(data, size);
  const absl::string_view text = input.rest();
  const std::optional<capstan::ReceivedRequest> read = capstan::ReadRequest(text);
  if (!read.has_value()) {
    CHECK_LT(text.size(), capstan::kMaxHeadBytes + capstan::kMaxBodyBytes);
    return 0;
  }
  CHECK_GT(read->size, 0);
  CHECK_LE(read->size, text.size());
  CHECK_LE(read->size, capstan::kMaxHeadBytes + capstan::kMaxBodyBytes);
  CHECK_LE(read->request.path.size(), capstan::kMaxTargetBytes);
  size_t decoded = 0;
  for (const auto& [name, value] : read->request.fields) decoded += name.size() + value.size();
  CHECK_LE(decoded, capstan::kMaxBodyBytes);
  return 0;
}
