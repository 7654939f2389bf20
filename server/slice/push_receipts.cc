#include "server/slice/push_receipts.h"

#include "absl/strings/str_cat.h"

namespace capstan {

void PushReceipts::Park(Step step, WorkerId worker, ParameterEndpoint::ReplyCallback done,
                        ReleasedReplies* released) {
  ParameterEndpoint::ReplyCallback& receipt = open_[{step, worker}];
  std::swap(receipt, done);
  if (done == nullptr) return;
  released->emplace_back(
      std::move(done),
      ErrorReply(absl::UnavailableError(absl::StrCat(slice_name_, ": the push was sent again"))));
}

void PushReceipts::Answer(Step step, WorkerId worker, ExchangeReply reply,
                          ReleasedReplies* released) {
  auto receipt = open_.extract({step, worker});
  if (!receipt.empty()) released->emplace_back(std::move(receipt.mapped()), std::move(reply));
}

void PushReceipts::Refuse(WorkerId worker, ReleasedReplies* released) {
  for (auto receipt = open_.begin(); receipt != open_.end();) {
    if (receipt->first.second != worker) {
      ++receipt;
      continue;
    }
    released->emplace_back(std::move(receipt->second),
                           ErrorReply(absl::FailedPreconditionError(absl::StrCat(
                               slice_name_, ": worker ", worker.value(),
                               ", as this process, is no member of the job any more"))));
    receipt = open_.erase(receipt);
  }
}

void PushReceipts::Cancel(const absl::Status& status, ReleasedReplies* released) {
  for (auto& [push, done] : std::exchange(open_, {})) {
    released->emplace_back(std::move(done), ErrorReply(status));
  }
}

}  // namespace capstan
