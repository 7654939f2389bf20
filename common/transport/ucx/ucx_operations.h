#ifndef COMMON_TRANSPORT_UCX_UCX_OPERATIONS_H_
#define COMMON_TRANSPORT_UCX_UCX_OPERATIONS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/transport/ucx/ucx_thread.h"

namespace capstan {

// Reuses the Operations of one owner. UCX points to an Operation until it has called back. If the
// owner ends before, the Operation's `owner` becomes null, and the thread keeps the Operation until
// its own end.
template <typename Operation, typename Owner>
class UcxOperations {
 public:
  UcxOperations(UcxThread* thread, Owner* owner) : thread_(thread), owner_(owner) {}
  UcxOperations(const UcxOperations&) = delete;
  UcxOperations& operator=(const UcxOperations&) = delete;
  ~UcxOperations() {
    const absl::flat_hash_set<Operation*> free(free_.begin(), free_.end());
    for (std::unique_ptr<Operation>& operation : all_) {
      if (free.contains(operation.get())) continue;
      operation->owner = nullptr;
      thread_->Keep(std::move(operation));
    }
  }

  Operation* Take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Operation>());
      all_.back()->owner = owner_;
      return all_.back().get();
    }
    Operation* const operation = free_.back();
    free_.pop_back();
    return operation;
  }
  void GiveBack(Operation* operation) { free_.push_back(operation); }

 private:
  UcxThread* const thread_;
  Owner* const owner_;
  std::vector<std::unique_ptr<Operation>> all_;
  std::vector<Operation*> free_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_OPERATIONS_H_
