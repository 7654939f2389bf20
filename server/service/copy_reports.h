#ifndef SERVER_SERVICE_COPY_REPORTS_H_
#define SERVER_SERVICE_COPY_REPORTS_H_

#include <cstdint>
#include <map>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "server/shard/shard_host.h"

namespace capstan {

// What a server's heartbeats say of the copies of its shards. Not thread-safe.
class CopyReports {
 public:
  // How far the copies are. Those that have acknowledged nothing new in the reports since 2 s are
  // named.
  void Write(const ShardHost& host, absl::Time now, v1::CopyReport* report);

 private:
  struct Acknowledged {
    uint64_t number = 0;  // of the copy
    uint64_t sequence = 0;
    absl::Time since;  // or since nothing was unanswered
  };

  std::map<ShardId, Acknowledged> acknowledged_;
};

}  // namespace capstan

#endif  // SERVER_SERVICE_COPY_REPORTS_H_
