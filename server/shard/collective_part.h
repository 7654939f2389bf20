#ifndef SERVER_SHARD_COLLECTIVE_PART_H_
#define SERVER_SHARD_COLLECTIVE_PART_H_

#include <string>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/exchange/collective.h"

namespace capstan {

// A worker's part in an operation of all workers, as a server reads it and names it in errors.

// INVALID_ARGUMENT: step, type, dtype, shape or bytes of a new part.
absl::Status CheckPart(WorkerId sender, const Collective& part);

// Whether the result is made of the values of all workers.
bool Combines(CollectiveType type);
// Whether the parts are of the same operation. Their values may differ.
bool IsSame(const Collective& a, const Collective& b);

// As "the mean of 2x3 float32".
std::string Describe(const Collective& part);
// As "operation 0 of step 1".
std::string WhichOf(const Collective& part);

}  // namespace capstan

#endif  // SERVER_SHARD_COLLECTIVE_PART_H_
