// Requests to the live page: heads and forms.
#include <glog/logging.h>

#include "server/page/http_text.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const capstan::FuzzInput input(data, size);
  const absl::string_view text = input.rest();
  const size_t end = text.find("\r\n\r\n");
  const size_t head_size = end == text.npos ? text.size() : end + 4;
  capstan::RequestHead parsed;
  if (!capstan::ParseHead(text.substr(0, head_size), &parsed).has_value()) {
    CHECK_LE(parsed.body_bytes, capstan::kMaxBodyBytes);
    CHECK_LE(parsed.request.path.size(), capstan::kMaxTargetBytes);
  }
  const absl::string_view body = text.substr(head_size, capstan::kMaxBodyBytes);
  size_t decoded = 0;
  for (const auto& [name, value] : capstan::ParseForm(body)) decoded += name.size() + value.size();
  CHECK_LE(decoded, body.size());
  return 0;
}
