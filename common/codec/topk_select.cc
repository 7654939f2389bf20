#include "common/codec/topk_select.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

// Compiles this file once for each kind of vectors. The CPU at hand picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/topk_select.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Magnitudes are the bits of absolute values: integers in the same order.

HWY_BEFORE_NAMESPACE();
namespace capstan {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kMagnitude = 0x7fffffff;

HWY_INLINE int32_t MagnitudeOf(float number) {
  int32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits & kMagnitude;
}

// Float32 vectors as long as the longest of float64. Their squares are added in float64.
using Wide = hn::ScalableTag<double>;
using Narrow = hn::Rebind<float, Wide>;

HWY_INLINE hn::Vec<Wide> AddSquare(hn::Vec<Narrow> number, hn::Vec<Wide> sum) {
  const auto wide = hn::PromoteTo(Wide(), number);
  return hn::MulAdd(wide, wide, sum);
}

// Appends the numbers values[i] + residual[i] whose magnitude is above `cut` to `found`, and i +
// `first` to `indices`. These have room for n. Returns how many. Raises *largest to the largest
// magnitude of all; adds the squares of the values to *square_sum if there is a residual.
template <bool kHasResidual>
HWY_INLINE size_t FindAbove(int32_t cut, const float* HWY_RESTRICT values,
                            const float* HWY_RESTRICT residual, size_t n, uint32_t first,
                            float* HWY_RESTRICT found, uint32_t* HWY_RESTRICT indices,
                            int32_t* largest, double* square_sum) {
  const hn::ScalableTag<float> tag;
  const hn::RebindToSigned<decltype(tag)> int_tag;
  const hn::RebindToUnsigned<decltype(tag)> index_tag;
  const size_t lanes = hn::Lanes(tag);
  const auto magnitude_bits = hn::Set(int_tag, kMagnitude);
  const auto cuts = hn::Set(int_tag, cut);
  // Made once: Iota goes through memory.
  const auto offsets = hn::Iota(index_tag, 0);
  auto largest_lanes = hn::Zero(int_tag);
  auto squares = hn::Zero(Wide());
  auto more_squares = hn::Zero(Wide());
  size_t count = 0;
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto number = hn::LoadU(tag, values + i);
    if constexpr (kHasResidual) {
      squares = AddSquare(hn::LoadU(Narrow(), values + i), squares);
      // Scalars have no second half.
      if (lanes > hn::Lanes(Wide())) {
        more_squares = AddSquare(hn::LoadU(Narrow(), values + i + lanes / 2), more_squares);
      }
      number = hn::Add(number, hn::LoadU(tag, residual + i));
    }
    const auto magnitude = hn::And(hn::BitCast(int_tag, number), magnitude_bits);
    largest_lanes = hn::Max(largest_lanes, magnitude);
    const auto is_found = hn::Gt(magnitude, cuts);
    if (HWY_LIKELY(hn::AllFalse(int_tag, is_found))) continue;
    // count <= i: there is room for a whole vector. Its tail is overwritten next time.
    hn::StoreU(hn::Compress(number, hn::RebindMask(tag, is_found)), tag, found + count);
    const auto index = hn::Add(offsets, hn::Set(index_tag, first + static_cast<uint32_t>(i)));
    hn::StoreU(hn::Compress(index, hn::RebindMask(index_tag, is_found)), index_tag,
               indices + count);
    count += hn::CountTrue(int_tag, is_found);
  }
  *largest = std::max(*largest, hn::GetLane(hn::MaxOfLanes(int_tag, largest_lanes)));
  *square_sum += hn::GetLane(hn::SumOfLanes(Wide(), hn::Add(squares, more_squares)));
  for (; i < n; ++i) {
    const float number = kHasResidual ? values[i] + residual[i] : values[i];
    if (kHasResidual) *square_sum += double{values[i]} * values[i];
    *largest = std::max(*largest, MagnitudeOf(number));
    if (MagnitudeOf(number) <= cut) continue;
    found[count] = number;
    indices[count++] = first + static_cast<uint32_t>(i);
  }
  return count;
}

size_t FindSumsAbove(int32_t cut, const float* values, const float* residual, size_t n,
                     uint32_t first, float* found, uint32_t* indices, int32_t* largest,
                     double* square_sum) {
  return FindAbove<true>(cut, values, residual, n, first, found, indices, largest, square_sum);
}

size_t FindValuesAbove(int32_t cut, const float* values, size_t n, uint32_t first, float* found,
                       uint32_t* indices, int32_t* largest) {
  double none = 0;
  return FindAbove<false>(cut, values, nullptr, n, first, found, indices, largest, &none);
}

// How many numbers are of at least the magnitudes low + step, low + 2 step, low + 3 step.
void CountAtLeast(int32_t low, int32_t step, const float* numbers, size_t n, size_t* counts) {
  uint32_t first = 0, second = 0, third = 0;
  for (size_t i = 0; i < n; ++i) {
    const int32_t magnitude = MagnitudeOf(numbers[i]);
    first += magnitude >= low + step ? 1 : 0;
    second += magnitude >= low + 2 * step ? 1 : 0;
    third += magnitude >= low + 3 * step ? 1 : 0;
  }
  counts[0] = first;
  counts[1] = second;
  counts[2] = third;
}

// Keeps the numbers of at least `magnitude`, and their indices, in their order. Returns how many.
size_t KeepAtLeast(int32_t magnitude, float* numbers, uint32_t* indices, size_t n) {
  const hn::ScalableTag<float> tag;
  const hn::RebindToSigned<decltype(tag)> int_tag;
  const hn::RebindToUnsigned<decltype(tag)> index_tag;
  const size_t lanes = hn::Lanes(tag);
  const auto magnitude_bits = hn::Set(int_tag, kMagnitude);
  const auto below = hn::Set(int_tag, magnitude - 1);
  size_t count = 0;
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto number = hn::LoadU(tag, numbers + i);
    const auto index = hn::LoadU(index_tag, indices + i);
    const auto kept = hn::Gt(hn::And(hn::BitCast(int_tag, number), magnitude_bits), below);
    hn::StoreU(hn::Compress(number, hn::RebindMask(tag, kept)), tag, numbers + count);
    hn::StoreU(hn::Compress(index, hn::RebindMask(index_tag, kept)), index_tag, indices + count);
    count += hn::CountTrue(int_tag, kept);
  }
  for (; i < n; ++i) {
    if (MagnitudeOf(numbers[i]) < magnitude) continue;
    numbers[count] = numbers[i];
    indices[count++] = indices[i];
  }
  return count;
}

// sum[i] += terms[i]. Adds the squares of the sums below `cut` in magnitude to *square_sum. Returns
// how many these are.
size_t AddTerms(float cut, const float* HWY_RESTRICT terms, size_t n, float* HWY_RESTRICT sum,
                double* square_sum) {
  const Narrow tag;
  const size_t lanes = hn::Lanes(tag);
  const auto cuts = hn::Set(tag, cut);
  const auto add = [=](size_t i, hn::Vec<Wide>& squares) HWY_ATTR {
    const auto number = hn::Add(hn::LoadU(tag, terms + i), hn::LoadU(tag, sum + i));
    hn::StoreU(number, tag, sum + i);
    const auto is_below = hn::Lt(hn::Abs(number), cuts);
    squares = AddSquare(hn::IfThenElseZero(is_below, number), squares);
    return hn::CountTrue(tag, is_below);
  };
  auto even = hn::Zero(Wide());
  auto odd = hn::Zero(Wide());
  size_t count = 0;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) count += add(i, even) + add(i + lanes, odd);
  *square_sum += hn::GetLane(hn::SumOfLanes(Wide(), hn::Add(even, odd)));
  for (; i < n; ++i) {
    sum[i] += terms[i];
    if (std::fabs(sum[i]) >= cut) continue;
    *square_sum += double{sum[i]} * sum[i];
    ++count;
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace capstan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan {

HWY_EXPORT(AddTerms);
HWY_EXPORT(CountAtLeast);
HWY_EXPORT(FindSumsAbove);
HWY_EXPORT(FindValuesAbove);
HWY_EXPORT(KeepAtLeast);

namespace {

using Floats = absl::Span<const float>;

// Numbers that are read at once.
constexpr size_t kBlock = 2048;
// The bits of an infinity without its sign. Those of NaNs are larger.
constexpr int32_t kInfiniteMagnitude = 0x7f800000;

int32_t MagnitudeOf(float number) {
  int32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits & 0x7fffffff;
}

// The largest magnitude that `k` of the numbers reach, or one that exactly k reach. At least k
// reach `low`, and less reach `high`.
int32_t FindCut(Floats numbers, size_t k, int32_t low, int32_t high) {
  while (high - low > 1) {
    // The last range may have less than four magnitudes: then some counts are not looked at.
    const int32_t step = std::max((high - low) / 4, 1);
    size_t counts[3];
    HWY_DYNAMIC_DISPATCH(CountAtLeast)(low, step, numbers.data(), numbers.size(), counts);
    const int32_t start = low;
    for (int i = 0; i < 3 && start + (i + 1) * step < high; ++i) {
      const int32_t magnitude = start + (i + 1) * step;
      if (counts[i] == k) return magnitude;
      if (counts[i] < k) {
        high = magnitude;
        break;
      }
      low = magnitude;
    }
  }
  return low;
}

// The numbers that can be among the k largest of those read so far, in their order. At first there
// may be a guess: if it is too high, the k largest of all are not found.
class Candidates {
 public:
  // For `k` of `n` numbers. Those up to the magnitude `cut` are no candidates.
  Candidates(size_t n, size_t k, int32_t cut)
      : k_(k),
        // Each prune leaves k, so pruning takes linear time in all.
        capacity_(std::min(n, k + k / 2 + 4 * kBlock)),
        cut_(cut),
        numbers_(new float[capacity_]),
        indices_(new uint32_t[capacity_]) {}

  // Reads the next numbers, at most kBlock.
  void Read(Floats values, Floats residual);
  // Keeps the k largest. False if there are fewer.
  bool KeepLargest();

  bool is_finite() const { return largest_ < kInfiniteMagnitude; }
  TopkSelection Take();

 private:
  void Prune();
  void DropLastOf(int32_t magnitude, size_t count);

  const size_t k_;
  const size_t capacity_;
  int32_t cut_;  // k candidates before are as large, or it is a guess
  int32_t largest_ = 0;
  size_t num_read_ = 0;
  double square_sum_ = 0;
  size_t size_ = 0;
  std::unique_ptr<float[]> numbers_;
  std::unique_ptr<uint32_t[]> indices_;
};

void Candidates::Read(Floats values, Floats residual) {
  if (capacity_ - size_ < values.size()) Prune();
  float* const found = numbers_.get() + size_;
  uint32_t* const indices = indices_.get() + size_;
  const auto first = static_cast<uint32_t>(num_read_);
  if (residual.empty()) {
    size_ += HWY_DYNAMIC_DISPATCH(FindValuesAbove)(cut_, values.data(), values.size(), first, found,
                                                   indices, &largest_);
  } else {
    size_ +=
        HWY_DYNAMIC_DISPATCH(FindSumsAbove)(cut_, values.data(), residual.data(), values.size(),
                                            first, found, indices, &largest_, &square_sum_);
  }
  num_read_ += values.size();
}

bool Candidates::KeepLargest() {
  if (size_ > k_) Prune();
  return size_ == k_;
}

void Candidates::Prune() {
  cut_ = FindCut({numbers_.get(), size_}, k_, std::max(cut_, 0), largest_ + 1);
  size_ = HWY_DYNAMIC_DISPATCH(KeepAtLeast)(cut_, numbers_.get(), indices_.get(), size_);
  DropLastOf(cut_, size_ - k_);
}

void Candidates::DropLastOf(int32_t magnitude, size_t count) {
  size_t begin = size_;
  while (count > 0) count -= MagnitudeOf(numbers_[--begin]) == magnitude ? 1 : 0;
  size_t kept = begin;
  for (size_t i = begin; i < size_; ++i) {
    if (MagnitudeOf(numbers_[i]) == magnitude) continue;
    numbers_[kept] = numbers_[i];
    indices_[kept++] = indices_[i];
  }
  size_ = kept;
}

TopkSelection Candidates::Take() {
  TopkSelection selection;
  selection.is_finite = is_finite();
  selection.k = k_;
  selection.indices = std::move(indices_);
  selection.numbers = std::move(numbers_);
  const int32_t cut = std::max(cut_, 0);
  std::memcpy(&selection.cut, &cut, sizeof(cut));
  selection.square_sum = square_sum_;
  return selection;
}

// A magnitude which, by a sample, a few more than k numbers are above; -1 for all numbers.
int32_t GuessCut(Floats values, Floats residual, size_t k) {
  constexpr size_t kRun = 16;  // a cache line
  constexpr size_t kMaxRuns = 1024;
  const size_t num_runs = std::min(values.size() / (32 * kRun), kMaxRuns);
  const size_t size = num_runs * kRun;
  // The k largest of all are about `share` of the sample. Four standard deviations more, and a few
  // for small shares: the guess is hardly ever too high.
  const double share = static_cast<double>(k) * size / values.size();
  const double rank = share + 4 * std::sqrt(share) + 4;
  if (rank >= size) return -1;
  float sample[kMaxRuns * kRun];
  const size_t stride = values.size() / num_runs;
  for (size_t run = 0; run < num_runs; ++run) {
    for (size_t i = 0; i < kRun; ++i) {
      const size_t at = run * stride + i;
      sample[run * kRun + i] = residual.empty() ? values[at] : values[at] + residual[at];
    }
  }
  return FindCut({sample, size}, static_cast<size_t>(rank), /*low=*/0, kInfiniteMagnitude) - 1;
}

}  // namespace

TopkSelection SelectTopk(Floats values, Floats residual, size_t k) {
  CHECK(0 < k && k <= values.size() && values.size() <= size_t{1} << 32) << k;
  int32_t cut = GuessCut(values, residual, k);
  while (true) {
    Candidates candidates(values.size(), k, cut);
    for (size_t begin = 0; begin < values.size() && candidates.is_finite(); begin += kBlock) {
      candidates.Read(values.subspan(begin, kBlock),
                      residual.empty() ? residual : residual.subspan(begin, kBlock));
    }
    if (!candidates.is_finite() || candidates.KeepLargest()) return candidates.Take();
    cut = -1;
  }
}

double UpdateResidual(Floats values, const TopkSelection& selection, Floats sent,
                      absl::Span<float> residual) {
  double square_sum = 0, square_sum_of_selected = 0;
  size_t num_below = 0;
  size_t j = 0;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const Floats block = values.subspan(begin, kBlock);
    num_below += HWY_DYNAMIC_DISPATCH(AddTerms)(selection.cut, block.data(), block.size(),
                                                &residual[begin], &square_sum);
    for (; j < selection.k && selection.indices[j] < begin + block.size(); ++j) {
      float& rest = residual[selection.indices[j]];
      rest -= sent[j];
      square_sum_of_selected += double{rest} * rest;
    }
  }
  // The others are not selected, and as large as the cut.
  const double num_ties = static_cast<double>(values.size() - selection.k - num_below);
  return square_sum + square_sum_of_selected + num_ties * selection.cut * selection.cut;
}

}  // namespace capstan
#endif  // HWY_ONCE
