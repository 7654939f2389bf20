#ifndef COMMON_JOB_CONSISTENCY_TEXT_H_
#define COMMON_JOB_CONSISTENCY_TEXT_H_

#include <string>

#include "proto/job.pb.h"

namespace capstan {

// For people: "bsp", or "ssp, staleness 4 (fc1.weight 2)".
std::string ConsistencyText(const v1::ConsistencySpec& consistency);

}  // namespace capstan

#endif  // COMMON_JOB_CONSISTENCY_TEXT_H_
