#ifndef TESTS_SIMULATION_CODEC_WATCH_H_
#define TESTS_SIMULATION_CODEC_WATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
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
  using VersionOfSlice = std::pair<SliceKey, uint64_t>;

  std::vector<FinalResidual> residuals;
  // The first two answers that gave other bytes, or another copy, for the same version of a slice;
  // empty: none did.
  std::string wrong_values;
  std::map<std::pair<VersionOfSlice, CodecType>, std::string> values_of_version;
  // Where pulls get differences: what a worker has after an answer of this version.
  std::map<VersionOfSlice, std::vector<float>> copies;
};

// Notes the residuals that a worker sends after its last step, and compares the values that it gets
// with those that others got. The watch outlives the replies.
class CodecWatchEndpoint : public ParameterEndpoint {
 public:
  struct Options {
    // The last of these arrays of a worker's own state is its residual; 0: it has no residual.
    uint32_t own_arrays = 0;
    std::vector<std::shared_ptr<const Codec>> pull_codecs;  // Required: of each table
    bool is_bsp = false;  // all the time: then all workers have the same copy of a version
  };

  CodecWatchEndpoint(Options options, CodecWatch* watch, std::unique_ptr<ParameterEndpoint> inner)
      : worker_(std::make_shared<Worker>(Worker{std::move(options), *watch, {}})),
        inner_(std::move(inner)) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  // Replies may come after the endpoint's end.
  struct Worker {
    Options options;
    CodecWatch& watch;
    struct Copy {
      std::vector<float> values;
      uint64_t number = 0;  // ExchangeReply::copy
    };
    std::map<SliceKey, Copy> copies;
  };

  static void TakeCopy(SliceKey slice, WorkerId id, const ExchangeReply& reply, Worker& worker);

  const std::shared_ptr<Worker> worker_;
  const std::unique_ptr<ParameterEndpoint> inner_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_CODEC_WATCH_H_
