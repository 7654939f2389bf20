#include "common/exchange/in_process_endpoint.h"

#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace capstan {

// The exchanges that the target has not answered. If the target answers after the connection's end,
// this object still exists and drops the answer.
class InProcessEndpoint::OpenExchanges {
 public:
  uint64_t Add(ReplyCallback done) {
    MutexLock lock(&mu_);
    open_.emplace(++last_id_, std::move(done));
    return last_id_;
  }

  void Answer(uint64_t id, ExchangeReply reply) {
    std::map<uint64_t, ReplyCallback>::node_type answered;
    {
      MutexLock lock(&mu_);
      answered = open_.extract(id);
    }
    if (!answered.empty()) answered.mapped()(std::move(reply));
  }

  void AnswerAll(const absl::Status& status) {
    std::map<uint64_t, ReplyCallback> open;
    {
      MutexLock lock(&mu_);
      open.swap(open_);
    }
    for (auto& [id, done] : open) done(ErrorReply(status));
  }

 private:
  Mutex mu_;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, ReplyCallback> open_ ABSL_GUARDED_BY(mu_);
};

InProcessEndpoint::InProcessEndpoint(ParameterEndpoint* target)
    : target_(target), open_(std::make_shared<OpenExchanges>()) {}

InProcessEndpoint::~InProcessEndpoint() {
  open_->AnswerAll(absl::UnavailableError("the connection was closed"));
}

void InProcessEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                                 ReplyCallback done) {
  const uint64_t id = open_->Add(std::move(done));
  target_->Exchange(
      std::move(request), std::move(delivered),
      [open = open_, id](ExchangeReply reply) { open->Answer(id, std::move(reply)); });
}

}  // namespace capstan
