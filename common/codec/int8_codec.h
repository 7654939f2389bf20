#ifndef COMMON_CODEC_INT8_CODEC_H_
#define COMMON_CODEC_INT8_CODEC_H_

#include <memory>

#include "common/codec/codec.h"

namespace capstan {

std::shared_ptr<const Codec> MakeInt8Codec();

}  // namespace capstan

#endif  // COMMON_CODEC_INT8_CODEC_H_
