#ifndef COMMON_WIRE_MESSAGE_BATCH_H_
#define COMMON_WIRE_MESSAGE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/exchange/payload.h"

namespace capstan {

// A batch holds several messages one after another. Each is two uint32 in little-endian, the
// lengths of its header and of its payload, then the header, then the payload.

// Size of a message in a batch, in bytes.
size_t BatchedBytes(absl::string_view header, const Payload& payload);

// Header and payload must each be shorter than 4 GiB.
void AppendToBatch(absl::string_view header, const Payload& payload, std::string* batch);

// Calls `use` for each message, in order, until it returns false. Returns false if the batch ends
// within a message, after `use` has had the messages before it.
bool ReadBatch(
    absl::Span<const uint8_t> batch,
    absl::FunctionRef<bool(absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload)>
        use);

}  // namespace capstan

#endif  // COMMON_WIRE_MESSAGE_BATCH_H_
