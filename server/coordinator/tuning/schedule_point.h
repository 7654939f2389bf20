#ifndef SERVER_COORDINATOR_TUNING_SCHEDULE_POINT_H_
#define SERVER_COORDINATOR_TUNING_SCHEDULE_POINT_H_

#include <cstdint>

namespace capstan {

// How workers send: what is tuned.
struct SchedulePoint {
  uint64_t partition_bytes = 0;
  uint64_t credit_bytes = 0;

  bool operator==(const SchedulePoint& other) const {
    return partition_bytes == other.partition_bytes && credit_bytes == other.credit_bytes;
  }
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_TUNING_SCHEDULE_POINT_H_
