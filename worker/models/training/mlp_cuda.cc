#include "kernels/cuda/cuda_stream.h"
#include "worker/models/training/mlp_definition.h"

namespace capstan {

template class Mlp<CudaStream>;

}  // namespace capstan
