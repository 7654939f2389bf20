#ifndef SERVER_COORDINATOR_MEMBERS_RESTORE_POINT_H_
#define SERVER_COORDINATOR_MEMBERS_RESTORE_POINT_H_

#include <string>

#include "proto/checkpoint.pb.h"

namespace capstan {

// The checkpoint from which a job goes on. An empty one: the job begins anew.
struct RestorePoint {
  bool is_empty() const { return path.empty(); }

  std::string path;
  v1::CheckpointManifest manifest;  // fits the job
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_RESTORE_POINT_H_
