#ifndef TESTS_SIMULATION_CODEC_WATCH_H_
#define TESTS_SIMULATION_CODEC_WATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/slicing.h"

namespace capstan {

// What a worker's pushes of a slice have left out, after all its steps.
struct FinalResidual {
  WorkerId worker;
  SliceKey slice;
  std::vector<float> values;
};

// What the workers of one life of a job send and get with codecs. Guarded by the baton of the
// simulation.
struct CodecWatch {
  std::vector<FinalResidual> residuals;
  // The first two answers that gave other bytes for the same version of a slice; empty: none did.
  std::string wrong_values;
  std::map<std::tuple<SliceKey, uint64_t, CodecType>, std::string> values_of_version;
};

// Notes the residuals that a worker sends after its last step, and compares the values that it gets
// with those that others got. The watch outlives the replies.
class CodecWatchEndpoint : public ParameterEndpoint {
 public:
  // The last of `own_arrays` arrays of a worker's own state is its residual; 0: it has no residual.
  CodecWatchEndpoint(uint32_t own_arrays, CodecWatch* watch,
                     std::unique_ptr<ParameterEndpoint> inner)
      : own_arrays_(own_arrays), watch_(*watch), inner_(std::move(inner)) {}

  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

 private:
  const uint32_t own_arrays_;
  CodecWatch& watch_;
  const std::unique_ptr<ParameterEndpoint> inner_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_CODEC_WATCH_H_
