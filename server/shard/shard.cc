#include "server/shard/shard.h"

#include <algorithm>
#include <utility>

namespace capstan {

void Shard::Run(ReleasedReplies released) const {
  for (auto& [done, reply] : released) {
    reply.epoch = epoch_;
    done(std::move(reply));
  }
}

void Shard::AddSlice(SliceKey key, Slice::Options options) {
  MutexLock lock(&mu_);
  slices_.emplace(key, std::make_unique<Slice>(std::move(options)));
}

void Shard::Exchange(ExchangeRequest&& request, ParameterEndpoint::ReplyCallback done) {
  ReleasedReplies released;
  {
    MutexLock lock(&mu_);
    const auto it = slices_.find(request.slice);
    if (it != slices_.end()) {
      it->second->Exchange(std::move(request), std::move(done), &released);
      request.gradient.Clear();  // The memory of one that was not taken is free before the reply.
    } else {
      released.emplace_back(std::move(done), ErrorReply(absl::NotFoundError("no such slice here")));
    }
  }
  Run(std::move(released));
}

template <typename Action>
void Shard::ForEachSlice(Action action) {
  ReleasedReplies released;
  {
    MutexLock lock(&mu_);
    for (auto& [key, slice] : slices_) action(key, *slice, &released);
  }
  Run(std::move(released));
}

void Shard::AddWorker(WorkerId worker) {
  ForEachSlice([worker](const SliceKey&, Slice& slice, ReleasedReplies* released) {
    slice.AddWorker(worker, released);
  });
}

void Shard::EnterWorker(WorkerId worker, Step first_step) {
  ForEachSlice([worker, first_step](const SliceKey&, Slice& slice, ReleasedReplies* released) {
    slice.EnterWorker(worker, first_step, released);
  });
}

Step Shard::NextStep(WorkerId worker) {
  Step next;
  ForEachSlice([worker, &next](const SliceKey&, Slice& slice, ReleasedReplies*) {
    next = std::max(next, slice.next_step(worker));
  });
  return next;
}

void Shard::RemoveWorker(WorkerId worker) {
  ForEachSlice([worker](const SliceKey&, Slice& slice, ReleasedReplies* released) {
    slice.RemoveWorker(worker, released);
  });
}

void Shard::SetSchedules(const TableSchedules& schedules) {
  ForEachSlice([&schedules](const SliceKey& key, Slice& slice, ReleasedReplies* released) {
    slice.SetSchedule(schedules.at(key.table.value()), released);
  });
}

Step Shard::HoldBack() {
  Step held_from;
  ForEachSlice([&held_from](const SliceKey&, Slice& slice, ReleasedReplies*) {
    held_from = std::max(held_from, slice.HoldBack());
  });
  return held_from;
}

void Shard::CancelParked(const absl::Status& status) {
  ForEachSlice([&status](const SliceKey&, Slice& slice, ReleasedReplies* released) {
    slice.CancelParked(status, released);
  });
}

}  // namespace capstan
