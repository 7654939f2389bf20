#include "tests/simulation/initial_values_endpoint.h"

#include <utility>
#include <vector>

#include "common/exchange/payload.h"

namespace capstan {

ExchangeRequest InitialValuesEndpoint::InitialOf(const ExchangeRequest& pull) const {
  const auto values = std::make_shared<std::vector<float>>(slice_size_);
  for (size_t i = 0; i < slice_size_; ++i) (*values)[i] = program_.InitialValue(pull.slice, i);
  return {pull.sender, Epoch(), pull.slice,
          InitialValues{Payload(absl::MakeConstSpan(*values), values)}};
}

void InitialValuesEndpoint::SendAfter(absl::Duration delay, ExchangeRequest request) {
  later_.RunAfter(delay, [this, request = std::move(request)](bool is_due) mutable {
    if (!is_due) return;
    inner_->Exchange(
        std::move(request), [] {}, [](const ExchangeReply&) {});
  });
}

void InitialValuesEndpoint::SendInitial(const ExchangeRequest& pull) {
  const ExchangeRequest initial = InitialOf(pull);
  const bool is_intruder = pull.sender.worker != WorkerId(0);
  SendAfter(is_intruder ? absl::ZeroDuration() : program_.initial_delay, initial);
  if (program_.initial_again_after > absl::ZeroDuration()) {
    SendAfter(program_.initial_delay + program_.initial_again_after, initial);
  }
}

void InitialValuesEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                                     ReplyCallback done) {
  const bool is_worker_0 = request.sender.worker == WorkerId(0);
  const bool may_send =
      is_worker_0 || (program_.has_intruder && request.sender.worker == WorkerId(1));
  bool is_first = false, is_first_of_all = false;
  if (may_send && PullOf(request) != nullptr) {
    MutexLock lock(&mu_);
    is_first_of_all = begun_.empty();
    is_first = begun_.insert(request.slice).second;
  }
  if (is_first_of_all && is_worker_0 && program_.worker_0_lives < absl::InfiniteDuration()) {
    later_.RunAfter(program_.worker_0_lives, [lose = lose_worker_0_](bool is_due) {
      if (is_due) lose();
    });
  }
  if (is_first) SendInitial(request);
  inner_->Exchange(std::move(request), std::move(delivered), std::move(done));
}

}  // namespace capstan
