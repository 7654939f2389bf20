#include "kernels/cuda/cuda_stream.h"
#include "worker/training/mlp_definition.h"

namespace capstan {

template class Mlp<CudaStream>;

}  // namespace capstan
