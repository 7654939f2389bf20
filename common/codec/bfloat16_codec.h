#ifndef COMMON_CODEC_BFLOAT16_CODEC_H_
#define COMMON_CODEC_BFLOAT16_CODEC_H_

#include <memory>

#include "common/codec/codec.h"

namespace capstan {

std::shared_ptr<const Codec> MakeBfloat16Codec();

}  // namespace capstan

#endif  // COMMON_CODEC_BFLOAT16_CODEC_H_
