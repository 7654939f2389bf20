#include "common/transport/ucx/ucx_fetcher.h"

#include <utility>

namespace capstan {

// A fetch by UCX.
struct UcxFetcher::Operation {
  UcxFetcher* owner = nullptr;
  std::unique_ptr<UcxIncoming> incoming;
  uint64_t bytes = 0;
};

UcxFetcher::UcxFetcher(UcxThread* thread, uint64_t most_bytes, Begin begin)
    : thread_(thread),
      most_bytes_(most_bytes),
      begin_(std::move(begin)),
      operations_(thread, this) {}

UcxFetcher::~UcxFetcher() {
  for (const Waiting& lost : waiting_) ucp_am_data_release(thread_->worker(), lost.data);
}

ucs_status_t UcxFetcher::Take(absl::Span<const uint8_t> header, size_t most_header_bytes,
                              void* data, size_t payload_bytes) {
  const bool may_wait = header.size() <= most_header_bytes;
  if (!may_wait || (waiting_.empty() && MayFetch())) {
    return Fetch(header, data, payload_bytes) ? UCS_INPROGRESS : UCS_OK;
  }
  waiting_.push_back({std::string(header.begin(), header.end()), data, payload_bytes});
  return UCS_INPROGRESS;
}

bool UcxFetcher::Fetch(absl::Span<const uint8_t> header, void* data, size_t payload_bytes) {
  std::unique_ptr<UcxIncoming> incoming = begin_(header, payload_bytes);
  if (incoming == nullptr) return false;
  Operation* const operation = operations_.Take();
  operation->incoming = std::move(incoming);
  operation->bytes = payload_bytes;
  fetching_bytes_ += payload_bytes;
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.recv_am = &OnReceived;
  params.user_data = operation;
  void* const request = ucp_am_recv_data_nbx(thread_->worker(), data, operation->incoming->buffer(),
                                             payload_bytes, &params);
  if (!UCS_PTR_IS_PTR(request)) {
    OnReceived(nullptr, UCS_PTR_STATUS(request), payload_bytes, operation);
  }
  return true;
}

void UcxFetcher::FetchWaiting() {
  // A fetch may end at once: avoids recursion.
  if (std::exchange(is_fetching_waiting_, true)) return;
  while (!waiting_.empty() && MayFetch() && !is_stopped_) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    const auto* const header = reinterpret_cast<const uint8_t*>(next.header.data());
    if (!Fetch({header, next.header.size()}, next.data, next.payload_bytes)) {
      ucp_am_data_release(thread_->worker(), next.data);
    }
  }
  is_fetching_waiting_ = false;
}

void UcxFetcher::OnReceived(void* request, ucs_status_t status, size_t /*length*/, void* argument) {
  auto* const operation = static_cast<Operation*>(argument);
  if (request != nullptr) ucp_request_free(request);
  const std::unique_ptr<UcxIncoming> incoming = std::move(operation->incoming);
  UcxFetcher* const fetcher = operation->owner;
  if (fetcher == nullptr) return;
  fetcher->fetching_bytes_ -= operation->bytes;
  fetcher->operations_.GiveBack(operation);
  if (fetcher->is_stopped_) return;
  // Sends waiting batches before the work on a large payload.
  fetcher->thread_->Flush();
  incoming->Done(UcxStatus(status, "ucp_am_recv_data_nbx"));
  fetcher->FetchWaiting();
}

}  // namespace capstan
