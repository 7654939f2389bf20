#ifndef COMMON_BASE_IDS_H_
#define COMMON_BASE_IDS_H_

#include <cstdint>
#include <ostream>
#include <utility>

namespace capstan {

// An integer of a type of its own: one kind of id does not convert to another. `Tag` makes the type
// distinct.
template <typename Tag, typename Rep>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  friend constexpr bool operator==(Id a, Id b) { return a.value_ == b.value_; }
  friend constexpr bool operator!=(Id a, Id b) { return a.value_ != b.value_; }
  friend constexpr bool operator<(Id a, Id b) { return a.value_ < b.value_; }
  friend constexpr bool operator<=(Id a, Id b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>(Id a, Id b) { return a.value_ > b.value_; }
  friend constexpr bool operator>=(Id a, Id b) { return a.value_ >= b.value_; }
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.value_; }
  template <typename H>
  friend H AbslHashValue(H hash, Id id) {
    return H::combine(std::move(hash), id.value_);
  }

 private:
  Rep value_ = 0;
};

using WorkerId = Id<struct WorkerIdTag, uint32_t>;
using ServerId = Id<struct ServerIdTag, uint32_t>;
using ShardId = Id<struct ShardIdTag, uint32_t>;
using TableId = Id<struct TableIdTag, uint32_t>;
// Index of a slice within its table.
using SliceIndex = Id<struct SliceIndexTag, uint32_t>;
// Version of the routing table; 0 before the first one.
using Epoch = Id<struct EpochTag, uint64_t>;
// Random number of one life of a process.
using Incarnation = Id<struct IncarnationTag, uint64_t>;

// Most processes of a worker beside the one that is the worker (v1::HeartbeatRequest::part).
inline constexpr uint32_t kMostWorkerParts = 4096;

// A worker's iteration count, from 0.
using Step = Id<struct StepTag, int64_t>;
constexpr Step operator+(Step step, int64_t count) { return Step(step.value() + count); }
constexpr int64_t operator-(Step a, Step b) { return a.value() - b.value(); }
// No job gets so far. A double, as in JSON, holds every step up to it.
inline constexpr Step kLargestStep{int64_t{1} << 53};

}  // namespace capstan

#endif  // COMMON_BASE_IDS_H_
