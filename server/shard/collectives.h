#ifndef SERVER_SHARD_COLLECTIVES_H_
#define SERVER_SHARD_COLLECTIVES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/collective.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "proto/replica.pb.h"
#include "server/slice/parked_pulls.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// The collective operations of a job's live workers. An operation is done once all workers that
// have not joined have sent their parts. Values are combined in order of worker, so results have
// the same bits in all runs. Keeps each worker's latest answer, which may be asked for again, and
// the results of the open step and the one before, for a worker that takes another one's place.
// Not thread-safe: the shard of the job's first slice guards it.
class Collectives {
 public:
  // The live workers. The parts of the others and of earlier incarnations go. Nobody waits for a
  // worker in steps before its first one.
  void SetWorkers(absl::Span<const ShardWorker> workers, ReleasedReplies* released);

  // Takes the part of a live worker, and appends due replies to `released`. A part that came before
  // is not taken again, and need not have its values. INVALID_ARGUMENT: as CheckPart; or workers do
  // different operations, which all that wait are told. OUT_OF_RANGE: another worker had done
  // all its steps before this one's first. FAILED_PRECONDITION: the worker has sent a later part.
  void Exchange(WorkerId worker, Collective&& part, ParameterEndpoint::ReplyCallback done,
                ReleasedReplies* released);

  // The step that the worker of a program is in, as it has said: by the end of the one before
  // (kEndOfStep), before its first push, or by a join.
  Step OpenStep(WorkerId worker) const {
    const auto found = open_steps_.find(worker);
    return found == open_steps_.end() ? Step(0) : found->second;
  }

  // The live worker's next push of the job's first slice is that of step `next`.
  void NoteProgress(WorkerId worker, Step next, ReleasedReplies* released);

  // Answers all who wait with `status`.
  void Cancel(const absl::Status& status, ReleasedReplies* released);

  int64_t num_parked() const;

  // All of it, for a copy on another server; and goes on as such a copy: nobody waits here.
  void Save(v1::CollectivesState* state) const;
  // INVALID_ARGUMENT.
  absl::Status Load(const v1::CollectivesState& state);

 private:
  // Step and number of an operation.
  using Name = std::pair<Step, uint64_t>;

  // What a live worker does.
  struct Place {
    ShardWorker worker;
    Step next_step;      // as NoteProgress
    bool is_new = true;  // it has sent no part yet
    Collective latest;   // its latest part, without values
    bool is_joined = false;
    // While the latest part waits for the others:
    bool is_open = false;
    std::vector<uint8_t> values;
    ParameterEndpoint::ReplyCallback done;
    // Afterwards, its answer:
    absl::Status status;
    Payload result;
  };

  static Name NameOf(const Collective& part) { return {part.step, part.number}; }
  // Whether the worker waits in an operation that is no join.
  static bool Waits(const Place& place) { return place.is_open && !place.is_joined; }
  // Whether operations of this step need the worker.
  static bool TakesPart(const Place& place, Step step) {
    return !place.is_joined && step >= place.worker.first_step;
  }
  // Whether the worker has done all its steps.
  static bool HasEnded(const Place& place) {
    return place.latest.type == CollectiveType::kEndOfStep && place.latest.step == kLargestStep;
  }
  // Whether its latest part was a join of all.
  bool HasJoinedWithAll(const Place& place) const {
    return place.latest.type == CollectiveType::kJoin && !place.is_open &&
           place.latest.step == all_joined_;
  }
  // The code of the error for the worker of `place`: it waits for `other`, which will not come.
  static absl::StatusCode CodeOfMismatch(const Place& place, const Place& other);
  // Answers a part that is not taken: it came before, or it is wrong. False: it is to be taken.
  bool AnswerAtOnce(WorkerId worker, Place& place, const Collective& part,
                    ParameterEndpoint::ReplyCallback& done, ReleasedReplies* released);
  // Takes a part, which then waits for the others.
  void Open(WorkerId worker, Place& place, Collective&& part,
            ParameterEndpoint::ReplyCallback done);
  void NoteOpenStep(WorkerId worker, const Collective& part);
  static void Answer(Place& place, absl::Status status, Payload result, ReleasedReplies* released);

  // Answers what is due.
  void Advance(ReleasedReplies* released);
  void AdvanceJoins(ReleasedReplies* released);
  // All workers have joined. This one's next operation has the number `after`.
  static void AnswerJoined(Place& place, uint64_t after, ReleasedReplies* released);
  // Whether all workers have joined, before the same step. Their pushes of the step before are
  // here: a worker that enters from now on does not do that one with them.
  bool HaveAllJoined() const;
  // INVALID_ARGUMENT or OUT_OF_RANGE, as Exchange: one of the workers will never do the operation
  // for which `first` waits.
  absl::Status CheckAgree(WorkerId first) const;
  Payload Combine(const Name& name) const;
  // With what a result takes beside its bytes.
  static size_t KeptBytes(const Collective& operation, const Payload& result);
  // Keeps the result until all have pushed the step after the operation's, if there is room for it.
  void Keep(const Collective& operation, const Payload& result);
  void DropDone();

  struct Done {
    Collective operation;  // without values
    Payload result;
  };

  std::map<WorkerId, Place> places_;
  std::map<WorkerId, Step> open_steps_;  // by worker, whatever process that was
  std::map<Name, Done> done_;            // of open steps, and of the step before
  size_t done_bytes_ = 0;
  Step incomplete_{-1};  // the latest step that has results too large for done_

  bool has_joined_ = false;  // one of them at least
  // The latest step before which all had joined, and how often: the numbers of the operations after
  // that, the latest ones.
  Step all_joined_{-1};
  std::deque<uint64_t> after_joins_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_COLLECTIVES_H_
