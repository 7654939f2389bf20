#ifndef COMMON_ROUTING_ELEMENT_COUNT_H_
#define COMMON_ROUTING_ELEMENT_COUNT_H_

#include <cstdint>
#include <vector>

#include "proto/coordinator_service.pb.h"

namespace capstan {

// Number of elements of a table that the coordinator has accepted.
inline uint64_t ElementCount(const v1::TableSpec& table) {
  uint64_t count = 1;
  for (const uint64_t size : table.shape()) count *= size;
  return count;
}

// Of each table of the job, in table id order.
inline std::vector<uint64_t> ElementCounts(const v1::JobView& view) {
  std::vector<uint64_t> counts;
  for (const v1::TableSpec& table : view.tables()) counts.push_back(ElementCount(table));
  return counts;
}

}  // namespace capstan

#endif  // COMMON_ROUTING_ELEMENT_COUNT_H_
