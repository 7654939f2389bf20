#ifndef WORKER_REPLAY_LAYER_LIST_H_
#define WORKER_REPLAY_LAYER_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// A tensor of a network whose training is replayed.
struct LayerTensor {
  int layer = 0;  // counted from the input
  std::string name;
  uint64_t elements = 0;
  double million_macs = 0;  // multiply-accumulates of a sample's forward pass
};

// Reads a list of tensors in order of layers: a line "layer,tensor,elements,million_macs", then one
// such line each. `source` names the text in errors. INVALID_ARGUMENT, with the line, when layers
// are not counted from 0 without a gap, a name is empty or comes twice, a tensor is empty or has
// 2^40 elements, a number is none, or no layer has anything to compute.
absl::StatusOr<std::vector<LayerTensor>> ParseLayerList(absl::string_view text,
                                                        absl::string_view source);

// The list that is built in under this name (vgg16, resnet50, bert_base, bert_large), else the one
// in the file of this name. NOT_FOUND and the like when it cannot be read; the errors above.
absl::StatusOr<std::vector<LayerTensor>> LoadLayerList(const std::string& name);

}  // namespace capstan

#endif  // WORKER_REPLAY_LAYER_LIST_H_
