#ifndef SERVER_SHARD_COMPARE_COPIES_H_
#define SERVER_SHARD_COMPARE_COPIES_H_

#include <string>

#include "server/shard/shard_contents.h"

namespace capstan {

// For tests: what is different between a shard and its copy after the same changes; empty: nothing.
// Kept pushes that workers can send again, and what waits, are in no copy.
std::string DifferenceOf(const ShardContents& shard, const ShardContents& copy);

}  // namespace capstan

#endif  // SERVER_SHARD_COMPARE_COPIES_H_
