#ifndef SERVER_SHARD_SHARD_CONTENTS_H_
#define SERVER_SHARD_SHARD_CONTENTS_H_

#include <map>
#include <memory>

#include "common/base/ids.h"
#include "common/tensor/slicing.h"
#include "server/shard/collectives.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice.h"

namespace capstan {

// What a shard is, on its primary and in its copy.
struct ShardContents {
  using Workers = std::map<WorkerId, ShardWorker>;
  using Slices = std::map<SliceKey, std::unique_ptr<Slice>>;

  Workers workers;  // the live ones
  // Ordered: a change of the membership then answers parked pulls in the same order in every run.
  Slices slices;
  Collectives collectives;  // if kCollectiveSlice is here
};

}  // namespace capstan

#endif  // SERVER_SHARD_SHARD_CONTENTS_H_
