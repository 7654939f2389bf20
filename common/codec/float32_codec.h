#ifndef COMMON_CODEC_FLOAT32_CODEC_H_
#define COMMON_CODEC_FLOAT32_CODEC_H_

#include <memory>

#include "common/codec/codec.h"

namespace capstan {

std::shared_ptr<const Codec> MakeFloat32Codec();

}  // namespace capstan

#endif  // COMMON_CODEC_FLOAT32_CODEC_H_
