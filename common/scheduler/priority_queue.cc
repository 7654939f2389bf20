#include "common/scheduler/priority_queue.h"

#include <utility>

namespace capstan {

void PriorityQueue::Push(Transfer transfer) {
  of_layer_[transfer.layer].push_back(std::move(transfer));
}

const Transfer& PriorityQueue::Next() const { return of_layer_.begin()->second.front(); }

Transfer PriorityQueue::Pop() {
  const auto first = of_layer_.begin();
  Transfer next = std::move(first->second.front());
  first->second.pop_front();
  if (first->second.empty()) of_layer_.erase(first);
  return next;
}

}  // namespace capstan
