#ifndef SERVER_SHARD_SHARD_BACKUP_H_
#define SERVER_SHARD_SHARD_BACKUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "proto/replica.pb.h"
#include "server/shard/shard_contents.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice.h"

namespace capstan {

// The copy of a shard of another server. It does what the primary has done, in the same order, and
// answers no worker. Thread-safe.
class ShardBackup {
 public:
  // Makes a slice that goes on as a snapshot says. INVALID_ARGUMENT; RESOURCE_EXHAUSTED.
  using MakeSlice = std::function<absl::StatusOr<std::unique_ptr<Slice>>(SliceSnapshot& snapshot)>;

  explicit ShardBackup(MakeSlice make_slice) : make_slice_(std::move(make_slice)) {}

  // The copy of this number is made here. What there is of an earlier one is dropped.
  void Expect(uint64_t number);

  // Does what the record says, and answers with the sequence up to which all is done.
  // FAILED_PRECONDITION: the copy has another number, or has become the primary. OUT_OF_RANGE: a
  // record before it is missing. DATA_LOSS: this copy differs. INVALID_ARGUMENT: the record does
  // not fit what there is.
  ExchangeReply Take(const ReplicaRecord& record);

  // All that the copy is, for the shard's new primary. From now on no record is taken: so the
  // earlier primary, should it still live, gets no acknowledgement and answers nobody.
  // DATA_LOSS: it is not whole.
  absl::StatusOr<ShardContents> TakeOver();

  // As Shard::LookAt, with the sequence up to which all is done. `is_whole`: all slices are here.
  void LookAt(
      absl::FunctionRef<void(uint64_t sequence, bool is_whole, const ShardContents& contents)> use)
      const;
  uint64_t number() const {
    MutexLock lock(&mu_);
    return number_;
  }
  // Bytes and rows of its slices.
  SliceMemory memory() const;

 private:
  // A slice of a sparse table, until its last rows have come.
  struct Pending {
    SliceKey key;
    SparseRowsSnapshot head;  // without rows
    std::unique_ptr<Slice> slice;
    // What has changed since the rows were cut, with payloads in memory of their own.
    std::vector<std::pair<v1::ReplicaChange, Payload>> changes;
  };

  bool IsWholeLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ExchangeReply AnswerLocked(absl::Status status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status FollowMoments(v1::ReplicaChange change, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status FollowInParts(const v1::ReplicaChange& change, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status FollowLocked(const v1::ReplicaChange& change, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status FollowSliceLocked(SliceKey key, const v1::ReplicaChange& change,
                                 const Payload& payload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status BeginLocked(const v1::CopyBegin& begin, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TakeSliceLocked(const v1::ReplicaChange& change, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TakeRowsLocked(const v1::CopiedRows& copied, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetMembersLocked(const v1::ShardMembers& members) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ExchangeLocked(const v1::WorkersExchange& exchange, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const MakeSlice make_slice_;
  mutable Mutex mu_;
  uint64_t number_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t sequence_ ABSL_GUARDED_BY(mu_) = 0;
  bool has_taken_over_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status fault_ ABSL_GUARDED_BY(mu_);  // the copy is of no use any more
  ShardContents contents_ ABSL_GUARDED_BY(mu_);
  size_t expected_slices_ ABSL_GUARDED_BY(mu_) = 0;
  // The changes of a moment until the last one of them comes, if the copy is whole.
  std::vector<std::pair<v1::ReplicaChange, Payload>> moment_ ABSL_GUARDED_BY(mu_);
  std::vector<uint8_t> parts_ ABSL_GUARDED_BY(mu_);  // of the next payload
  std::optional<Pending> pending_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // SERVER_SHARD_SHARD_BACKUP_H_
