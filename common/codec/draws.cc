#include "common/codec/draws.h"

#include "common/base/random.h"

namespace capstan {

SliceDraws::SliceDraws(const DrawKey& key)
    : first_block(key.first_element / kPerBlock),
      step_low(static_cast<uint32_t>(key.step.value())),
      step_high(static_cast<uint32_t>(static_cast<uint64_t>(key.step.value()) >> 32)) {
  const std::array<uint32_t, 4> words =
      Philox4x32({static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32),
                  key.table.value(), key.worker.value()},
                 {0, 0});
  philox_key = {words[0], words[1]};
}

}  // namespace capstan
