#ifndef COMMON_JOB_KNOWN_VALUES_H_
#define COMMON_JOB_KNOWN_VALUES_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace capstan {

// INVALID_ARGUMENT "optimizer.type: expected ..., got 99" if the message, or one in it, has a
// number for an enum that this program does not know. Without this check, a message from a peer
// with such a number counts as one without the field, which has its default.
absl::Status CheckEnumsAreKnown(const google::protobuf::Message& message);

}  // namespace capstan

#endif  // COMMON_JOB_KNOWN_VALUES_H_
