#ifndef SERVER_CHECKPOINT_WRITE_DENSE_SLICE_H_
#define SERVER_CHECKPOINT_WRITE_DENSE_SLICE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/model_file/model_file.h"
#include "server/optimizer/state_tensors.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// Writes a slice of a dense table into a model's file. The slice begins at the table's element
// `offset`. `state` has the tensors of the optimizer's state, or none: then the state is left out.
// The file has all these tensors. The number of steps in it is that of the table's first slice.
absl::Status WriteDenseSlice(const SliceSnapshot& slice, const std::string& table, uint64_t offset,
                             const StateTensors& state, const ModelTables& model);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_WRITE_DENSE_SLICE_H_
