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

// Messages that travel in one piece: of each the lengths of its header and of its payload (two
// uint32, little-endian), the header, and the payload.

// What a message takes of a batch.
size_t BatchedBytes(absl::string_view header, const Payload& payload);

// Each part is shorter than 4 GiB.
void AppendToBatch(absl::string_view header, const Payload& payload, std::string* batch);

// Calls `use` for each message, in order, until it answers false. False when the batch ends within
// a message; those before it have been used.
bool ReadBatch(
    absl::Span<const uint8_t> batch,
    absl::FunctionRef<bool(absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload)>
        use);

}  // namespace capstan

#endif  // COMMON_WIRE_MESSAGE_BATCH_H_
