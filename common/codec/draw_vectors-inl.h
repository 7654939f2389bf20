// Included by sources that are compiled once for each kind of vectors, after <hwy/highway.h>.

#if defined(COMMON_CODEC_DRAW_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMMON_CODEC_DRAW_VECTORS_INL_H_
#undef COMMON_CODEC_DRAW_VECTORS_INL_H_
#else
#define COMMON_CODEC_DRAW_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/random.h"
#include "common/codec/draws.h"

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

// The draws of a slice, many blocks of Philox at a time.
class DrawVectors {
 public:
  explicit DrawVectors(const SliceDraws& draws) : draws_(draws) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      keys_[round][0] = draws.philox_key[0] + round * kWeyl0;
      keys_[round][1] = draws.philox_key[1] + round * kWeyl1;
    }
  }

  // Writes `kCount` draws, a multiple of 256, from block `first` of the table on.
  template <size_t kCount>
  HWY_INLINE void Draw(uint64_t first, uint16_t* HWY_RESTRICT drawn) const;

 private:
  // The constants of Philox4x32-10, as in random.cc.
  static constexpr uint32_t kRounds = 10;
  static constexpr uint32_t kMultiplier0 = 0xD2511F53;
  static constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9;
  static constexpr uint32_t kWeyl1 = 0xBB67AE85;

#if HWY_TARGET != HWY_SCALAR
  using Tag = hwy::HWY_NAMESPACE::ScalableTag<uint64_t>;
  using Vector = hwy::HWY_NAMESPACE::Vec<Tag>;

  // Each lane of 64 bits has a block. The lower halves are its words; the upper ones mean nothing.
  HWY_INLINE static void Round(Vector key0, Vector key1, Vector& w0, Vector& w1, Vector& w2,
                               Vector& w3);
  HWY_INLINE static void Store(Vector w0, Vector w1, Vector w2, Vector w3,
                               uint16_t* HWY_RESTRICT drawn);
#endif

  const SliceDraws& draws_;
  uint64_t keys_[kRounds][2];
};

#if HWY_TARGET == HWY_SCALAR

template <size_t kCount>
HWY_INLINE void DrawVectors::Draw(uint64_t first, uint16_t* HWY_RESTRICT drawn) const {
  for (size_t i = 0; i < kCount; i += SliceDraws::kPerBlock) {
    const auto words = Philox4x32(draws_.Counter(first++), draws_.philox_key);
    std::memcpy(drawn + i, words.data(), sizeof(words));
  }
}

#else

HWY_INLINE void DrawVectors::Round(Vector key0, Vector key1, Vector& w0, Vector& w1, Vector& w2,
                                   Vector& w3) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Repartition<uint32_t, Tag> word_tag;
  const auto product0 = hn::MulEven(hn::BitCast(word_tag, w0), hn::Set(word_tag, kMultiplier0));
  const auto product1 = hn::MulEven(hn::BitCast(word_tag, w2), hn::Set(word_tag, kMultiplier1));
  w0 = hn::Xor3(hn::ShiftRight<32>(product1), w1, key0);
  w1 = product1;
  w2 = hn::Xor3(hn::ShiftRight<32>(product0), w3, key1);
  w3 = product0;
}

// The blocks of even lanes come first.
HWY_INLINE void DrawVectors::Store(Vector w0, Vector w1, Vector w2, Vector w3,
                                   uint16_t* HWY_RESTRICT drawn) {
  namespace hn = hwy::HWY_NAMESPACE;
  const Tag tag;
  const hn::Repartition<uint32_t, Tag> word_tag;
  const hn::Repartition<uint16_t, Tag> draw_tag;
  const auto words01 = hn::BitCast(
      tag, hn::OddEven(hn::BitCast(word_tag, hn::ShiftLeft<32>(w1)), hn::BitCast(word_tag, w0)));
  const auto words23 = hn::BitCast(
      tag, hn::OddEven(hn::BitCast(word_tag, hn::ShiftLeft<32>(w3)), hn::BitCast(word_tag, w2)));
  const auto even = hn::InterleaveLower(tag, words01, words23);
  const auto odd = hn::InterleaveUpper(tag, words01, words23);
  hn::Store(hn::BitCast(draw_tag, even), draw_tag, drawn);
  hn::Store(hn::BitCast(draw_tag, odd), draw_tag, drawn + hn::Lanes(draw_tag));
}

template <size_t kCount>
HWY_INLINE void DrawVectors::Draw(uint64_t first, uint16_t* HWY_RESTRICT drawn) const {
  namespace hn = hwy::HWY_NAMESPACE;
  const Tag tag;
  const size_t lanes = hn::Lanes(tag);
  HWY_ALIGN uint64_t offsets[hn::MaxLanes(tag)];
  for (size_t i = 0; i < lanes; ++i) offsets[i] = i / 2 + (i % 2) * (lanes / 2);
  auto counter = hn::Add(hn::Load(tag, offsets), hn::Set(tag, first));
  const auto step_low = hn::Set(tag, draws_.step_low);
  const auto step_high = hn::Set(tag, draws_.step_high);
  const auto step_of_counter = hn::Set(tag, lanes);
  // Two vectors of blocks at a time: neither waits for the other's products.
  for (size_t i = 0; i < kCount; i += 2 * lanes * SliceDraws::kPerBlock) {
    auto a0 = counter, a1 = hn::ShiftRight<32>(counter), a2 = step_low, a3 = step_high;
    counter = hn::Add(counter, step_of_counter);
    auto b0 = counter, b1 = hn::ShiftRight<32>(counter), b2 = step_low, b3 = step_high;
    counter = hn::Add(counter, step_of_counter);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto key0 = hn::Set(tag, keys_[round][0]);
      const auto key1 = hn::Set(tag, keys_[round][1]);
      Round(key0, key1, a0, a1, a2, a3);
      Round(key0, key1, b0, b1, b2, b3);
    }
    Store(a0, a1, a2, a3, drawn + i);
    Store(b0, b1, b2, b3, drawn + i + lanes * SliceDraws::kPerBlock);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#endif  // COMMON_CODEC_DRAW_VECTORS_INL_H_
