#ifndef WORKER_MODELS_REPLAY_LAYER_LIST_H_
#define WORKER_MODELS_REPLAY_LAYER_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// A tensor of a replayed network.
struct LayerTensor {
  int layer = 0;  // counted from the input
  std::string name;
  uint64_t elements = 0;
  double million_macs = 0;  // multiply-accumulates of a sample's forward pass
};

// Reads a list of tensors in order of layers: a header "layer,tensor,elements,million_macs", then
// such a line for each tensor. `source` names the text in errors. INVALID_ARGUMENT, with the line,
// for layers not counted from 0 without a gap, an empty or repeated name, a tensor without elements
// or with 2^40 of them, a field without a number, or a list without multiply-accumulates.
absl::StatusOr<std::vector<LayerTensor>> ParseLayerList(absl::string_view text,
                                                        absl::string_view source);

// The built-in list of this name (vgg16, resnet50, bert_base, bert_large), else the list in the
// file of this name. NOT_FOUND for an unreadable file; the errors above.
absl::StatusOr<std::vector<LayerTensor>> LoadLayerList(const std::string& name);

}  // namespace capstan

#endif  // WORKER_MODELS_REPLAY_LAYER_LIST_H_
