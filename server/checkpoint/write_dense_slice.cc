#include "server/checkpoint/write_dense_slice.h"

#include <cstddef>

#include "absl/types/span.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

absl::Status WriteFloats(const Payload& floats, const std::string& tensor, uint64_t offset,
                         const ModelTables& model) {
  absl::Status status;
  floats.ForEachBlock([&](size_t done, absl::Span<const float> block) {
    status = model.WriteValues(tensor, offset + done, block);
    return status.ok();
  });
  return status;
}

}  // namespace

absl::Status WriteDenseSlice(const SliceSnapshot& slice, const std::string& table, uint64_t offset,
                             const StateTensors& state, const ModelTables& model) {
  RETURN_IF_ERROR(WriteFloats(slice.values, table, offset, model));
  for (size_t i = 0; i < state.arrays.size(); ++i) {
    RETURN_IF_ERROR(WriteFloats(slice.optimizer_state[i], state.arrays[i], offset, model));
  }
  if (state.step.empty() || slice.key.slice != SliceIndex(0)) return absl::OkStatus();
  return model.WriteValues(state.step, 0, {static_cast<float>(slice.optimizer_steps)});
}

}  // namespace capstan
