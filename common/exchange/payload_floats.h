#ifndef COMMON_EXCHANGE_PAYLOAD_FLOATS_H_
#define COMMON_EXCHANGE_PAYLOAD_FLOATS_H_

#include <vector>

#include "absl/types/span.h"
#include "common/exchange/payload.h"

namespace capstan {

// For tests: the values of a payload of float32.
inline std::vector<float> Floats(const Payload& payload) {
  std::vector<float> values(payload.size_bytes() / sizeof(float));
  payload.CopyTo(absl::MakeSpan(values));
  return values;
}

}  // namespace capstan

#endif  // COMMON_EXCHANGE_PAYLOAD_FLOATS_H_
