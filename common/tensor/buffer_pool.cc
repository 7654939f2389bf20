#include "common/tensor/buffer_pool.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/tensor/host_buffer.h"

namespace capstan {
namespace {

// Smaller buffers share no huge page: a pool has them in many sizes.
constexpr size_t kLeastSharing = kHugePageBytes / 8;

// The size that a buffer of `bytes` gets: at most 8 sizes between a power of two and the next one.
size_t SizeOf(size_t bytes) {
  size_t power = BufferPool::kLeastBytes;
  while (power <= bytes / 2) power *= 2;
  const size_t unit = std::max(power / 8, kPageBytes);
  return (bytes + unit - 1) / unit * unit;
}

// Memory from the system, cut into buffers of one size: as many as fit into a huge page, or one.
class Piece {
 public:
  explicit Piece(size_t buffer_bytes) {
    const size_t stride = (buffer_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    const bool is_alone = buffer_bytes < kLeastSharing || stride > kHugePageBytes / 2;
    bytes_ = is_alone ? buffer_bytes : kHugePageBytes;
    count_ = is_alone ? 1 : kHugePageBytes / stride;
    memory_ = static_cast<uint8_t*>(AllocateHostMemory(bytes_));
    for (size_t i = count_; i > 0; --i) free_.push_back(memory_ + (i - 1) * stride);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  ~Piece() { FreeHostMemory(memory_); }

  size_t bytes() const { return bytes_; }
  size_t free_count() const { return free_.size(); }
  bool is_idle() const { return free_.size() == count_; }

  uint8_t* Take() {
    uint8_t* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void GiveBack(uint8_t* buffer) { free_.push_back(buffer); }

 private:
  size_t bytes_ = 0;
  size_t count_ = 0;
  uint8_t* memory_ = nullptr;
  std::vector<uint8_t*> free_;
};

}  // namespace

struct BufferPool::State {
  using Pieces = std::list<Piece>;  // those with a free buffer come first

  mutable Mutex mu;
  std::map<size_t, Pieces> of_size ABSL_GUARDED_BY(mu);
  size_t held_bytes ABSL_GUARDED_BY(mu) = 0;
  size_t taken_bytes ABSL_GUARDED_BY(mu) = 0;
  size_t most_taken_bytes ABSL_GUARDED_BY(mu) = 0;

  // The piece for the next buffer of this size.
  Pieces::iterator PieceLocked(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    Pieces& pieces = of_size[bytes];
    if (pieces.empty() || pieces.front().free_count() == 0) {
      pieces.emplace_front(bytes);
      held_bytes += pieces.front().bytes();
    }
    return pieces.begin();
  }

  uint8_t* TakeLocked(Pieces::iterator piece, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    uint8_t* const buffer = piece->Take();
    Pieces& pieces = of_size[bytes];
    if (piece->free_count() == 0) pieces.splice(pieces.end(), pieces, piece);
    taken_bytes += bytes;
    most_taken_bytes = std::max(most_taken_bytes, taken_bytes);
    return buffer;
  }

  void GiveBack(Pieces::iterator piece, size_t bytes, uint8_t* buffer) {
    MutexLock lock(&mu);
    piece->GiveBack(buffer);
    Pieces& pieces = of_size[bytes];
    pieces.splice(pieces.begin(), pieces, piece);
    taken_bytes -= bytes;
  }

  bool HoldsTooMuchLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return held_bytes > 2 * most_taken_bytes + BufferPool::kSlackBytes;
  }

  // Returns idle pieces to the system while too much is held.
  void TrimLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    for (auto size = of_size.begin(); size != of_size.end();) {
      Pieces& pieces = size->second;
      for (auto piece = pieces.begin(); piece != pieces.end();) {
        if (!HoldsTooMuchLocked()) return;
        if (!piece->is_idle()) {
          ++piece;
          continue;
        }
        held_bytes -= piece->bytes();
        piece = pieces.erase(piece);
      }
      size = pieces.empty() ? of_size.erase(size) : std::next(size);
    }
  }
};

BufferPool::BufferPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<uint8_t> BufferPool::Take(size_t least_bytes) {
  if (least_bytes < kLeastBytes) {
    return {new uint8_t[least_bytes], std::default_delete<uint8_t[]>()};
  }
  const size_t bytes = SizeOf(least_bytes);
  State::Pieces::iterator piece;
  uint8_t* buffer;
  {
    MutexLock lock(&state_->mu);
    piece = state_->PieceLocked(bytes);
    buffer = state_->TakeLocked(piece, bytes);
    if (state_->HoldsTooMuchLocked()) state_->TrimLocked();
  }
  return {buffer, [state = state_, piece, bytes](uint8_t* returned) {
            state->GiveBack(piece, bytes, returned);
          }};
}

size_t BufferPool::free_bytes() const {
  MutexLock lock(&state_->mu);
  size_t sum = 0;
  for (const auto& [bytes, pieces] : state_->of_size) {
    for (const Piece& piece : pieces) sum += bytes * piece.free_count();
  }
  return sum;
}

size_t BufferPool::held_bytes() const {
  MutexLock lock(&state_->mu);
  return state_->held_bytes;
}

}  // namespace capstan
