#ifndef COMMON_CODEC_TOPK_CODEC_H_
#define COMMON_CODEC_TOPK_CODEC_H_

#include <memory>

#include "common/codec/codec.h"

namespace capstan {

// Sends the values of largest magnitude, encoded by `values`: float32, bfloat16 or int8.
// 0 < `ratio_or_count`: below 1 the ratio of values that are sent, else their number, a whole one.
//
// Check also refuses float32 values that are not finite. DecodeAdd does not touch the elements that
// were not sent.
std::shared_ptr<const Codec> MakeTopkCodec(double ratio_or_count,
                                           std::shared_ptr<const Codec> values);

}  // namespace capstan

#endif  // COMMON_CODEC_TOPK_CODEC_H_
