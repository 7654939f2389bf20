#ifndef COMMON_ROUTING_ROUNDS_TEXT_H_
#define COMMON_ROUTING_ROUNDS_TEXT_H_

#include <string>

#include "proto/coordinator_service.pb.h"

namespace capstan {

// What people are told of a job whose steps are rounds: "50 local steps each, in 4 fragments; 16000
// so far, drift 0.031". The steps are those of all workers, the drift is the mean over live ones.
// Empty: it has no local steps, or its shards are not placed yet.
std::string RoundsText(const v1::GetStatusReply& status);

}  // namespace capstan

#endif  // COMMON_ROUTING_ROUNDS_TEXT_H_
