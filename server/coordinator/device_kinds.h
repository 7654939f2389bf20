#ifndef SERVER_COORDINATOR_DEVICE_KINDS_H_
#define SERVER_COORDINATOR_DEVICE_KINDS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"

namespace capstan {

// The kinds of CPU or GPU that workers compute on. Sums are rounded alike on one kind only. Not
// thread-safe.
class DeviceKinds {
 public:
  // The job goes on from `restored`, if that has workers.
  explicit DeviceKinds(const v1::CheckpointManifest& restored);

  // A worker's report of its v1::Progress::device. Returns what people should know of it; empty:
  // nothing, or it has been said. A device without a kind is like any other.
  std::string Report(uint32_t worker, const std::string& device, bool is_bsp);

  // All that Report has returned.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const int64_t restored_step_;
  std::set<std::string> restored_kinds_;  // of the workers before; empty: it says nothing any more
  uint32_t first_worker_ = 0;             // the first one with a kind
  std::string first_kind_;                // empty: there is none yet
  bool has_told_difference_ = false;
  std::vector<std::string> notes_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_DEVICE_KINDS_H_
