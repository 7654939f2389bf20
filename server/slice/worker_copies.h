#ifndef SERVER_SLICE_WORKER_COPIES_H_
#define SERVER_SLICE_WORKER_COPIES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice_values.h"

namespace capstan {

// The memory that a server may use to know what single workers have. Thread-safe.
class ReplyStateBudget {
 public:
  explicit ReplyStateBudget(uint64_t bytes) : free_(bytes) {}

  // Takes nothing and returns false if less is left.
  bool Take(uint64_t bytes) {
    uint64_t free = free_.load();
    while (free >= bytes) {
      if (free_.compare_exchange_weak(free, free - bytes)) return true;
    }
    return false;
  }
  void Return(uint64_t bytes) { free_.fetch_add(bytes); }

 private:
  std::atomic<uint64_t> free_;
};

// Pulls of one slice as differences. For this the server keeps a copy of what the workers have. A
// reply has the largest elements of values - copy, and is added to the copy here as it is there. So
// what a difference leaves out stays in values - copy, and comes later: this is error feedback, and
// nothing adds up. If few elements have changed since, they are sent exactly.
//
// Every copy has a number, and a worker names the one that it has. If that is not the one here, it
// gets a whole copy. Numbers are not used twice. Not thread-safe, but any thread may read and
// release the payloads.
class WorkerCopies {
 public:
  struct Pull {
    WorkerId worker;
    uint64_t copy = 0;  // the number of the one that the worker has; 0: none
    // All workers pull the same versions, so one copy serves all (BSP). Then the values that they
    // get depend on these versions alone, and not on retries or losses.
    bool is_shared = false;
  };
  struct Reply {
    Payload values;
    // kFloat32: a whole copy. kChanged: with these elements the worker has the values exactly; but
    // if the number stays, there are none, and its copy is as exact as before.
    CodecType codec = CodecType::kFloat32;
    uint64_t copy = 0;  // its number; 0: it is not kept here
  };
  // `codec` is a topk. A worker's own copy is taken from `budget`; one that does not fit is not
  // kept, and the worker gets the values as float32. Both outlive this.
  WorkerCopies(const Codec* codec, DrawKey draws, ReplyStateBudget* budget)
      : codec_(*codec), draws_(draws), budget_(budget) {}
  WorkerCopies(const WorkerCopies&) = delete;
  WorkerCopies& operator=(const WorkerCopies&) = delete;
  ~WorkerCopies();

  // `values` are those of `version`, which does not become smaller. INVALID_ARGUMENT if one is a
  // NaN or an infinity. RESOURCE_EXHAUSTED if there is no memory for a shared copy.
  absl::StatusOr<Reply> Answer(const Pull& pull, const Payload& values, uint64_t version);
  // The worker has left: its own copy is dropped.
  void Forget(WorkerId worker);
  // The server is the slice's primary from this epoch on. Copies get numbers that no earlier
  // primary has given.
  void BeginEpoch(Epoch epoch);

  // Memory of all copies.
  uint64_t size_bytes() const;

  // The shared copy. None: no pull has made one yet.
  std::optional<SliceSnapshot::WorkerCopy> shared() const;
  // Goes on with a shared copy. RESOURCE_EXHAUSTED.
  absl::Status Restore(const SliceSnapshot::WorkerCopy& shared);
  // Its number; 0: there is none.
  uint64_t shared_number() const { return shared_.has_value() ? shared_->number : 0; }
  // On another server: the shared copy has got this number by an answer with these values. 0: it
  // was dropped. Errors are those of Answer.
  absl::Status Follow(const Payload& values, uint64_t version, uint64_t number);
  // The restored shared copy has this number.
  void set_shared_number(uint64_t number) { shared_->number = last_number_ = number; }

 private:
  struct Copy {
    SliceValues values;
    uint64_t number = 0;
    uint64_t version = 0;  // of the values to which it was brought up
    // How it was made from the copy before; base 0: not by a difference.
    uint64_t base = 0;
    Reply difference;
  };

  static absl::StatusOr<Copy> MakeCopy(const Payload& values, uint64_t version);
  absl::StatusOr<Reply> AnswerShared(const Pull& pull, const Payload& values, uint64_t version);
  absl::StatusOr<Reply> AnswerOne(const Pull& pull, const Payload& values, uint64_t version);
  // Brings the copy up to the values, with a new number. No error changes it.
  absl::Status Advance(absl::Span<const float> values, uint64_t version, Copy& copy);
  absl::StatusOr<Payload> EncodeDifference(absl::Span<const float> values, uint64_t version,
                                           absl::Span<const float> copy) const;
  void DropOwnCopies();

  const Codec& codec_;
  const DrawKey draws_;
  ReplyStateBudget* const budget_;
  uint64_t last_number_ = 0;
  // One kind at a time.
  std::optional<Copy> shared_;
  std::map<WorkerId, Copy> own_;
};

}  // namespace capstan

#endif  // SERVER_SLICE_WORKER_COPIES_H_
