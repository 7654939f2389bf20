#ifndef COMMON_ROUTING_COPIES_TEXT_H_
#define COMMON_ROUTING_COPIES_TEXT_H_

#include <string>

#include "proto/coordinator_service.pb.h"

namespace capstan {

// What people are told of the copies of a job's shards.

// "64 of 64 whole, equal at version 812", or while they are made "12 of 64 whole, 0.31 of 1.20 GB
// copied"; "0 of 64 whole; the others wait for another server" after a loss. Then what GivenUpText
// says, and which copies do not acknowledge. Empty: the job has none, or its shards are not placed
// yet.
std::string CopiesText(const v1::GetStatusReply& status);

// "the copy of shard 5 was given up". Empty: none was.
std::string GivenUpText(const v1::CopyReport& copies);

}  // namespace capstan

#endif  // COMMON_ROUTING_COPIES_TEXT_H_
