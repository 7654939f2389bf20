#ifndef COMMON_MEMBERSHIP_SCRIPTED_COORDINATOR_H_
#define COMMON_MEMBERSHIP_SCRIPTED_COORDINATOR_H_

#include <deque>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// For tests: keeps every call until the test answers it. Not thread-safe.
class ScriptedCoordinator : public CoordinatorEndpoint {
 public:
  template <typename Request>
  struct Calls : std::deque<std::pair<Request, Callback<ReplyOf<Request>>>> {
    // Answers the oldest call and returns its request.
    Request Answer(absl::StatusOr<ReplyOf<Request>> reply) {
      auto [request, done] = std::move(this->front());
      this->pop_front();
      done(std::move(reply));
      return request;
    }
  };

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override {
    std::visit(
        [&](auto& one) {
          using Request = std::decay_t<decltype(one)>;
          Of<Request>().emplace_back(std::move(one), CallbackOf<ReplyOf<Request>>(std::move(done)));
        },
        request);
  }

  // The calls of this kind.
  template <typename Request>
  Calls<Request>& Of() {
    return std::get<Calls<Request>>(calls_);
  }
  template <typename Request>
  const Calls<Request>& Of() const {
    return std::get<Calls<Request>>(calls_);
  }

 private:
  template <typename Requests>
  struct AllCalls;
  template <typename... Requests>
  struct AllCalls<std::variant<Requests...>> {
    using Type = std::tuple<Calls<Requests>...>;
  };

  AllCalls<CoordinatorRequest>::Type calls_;
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_SCRIPTED_COORDINATOR_H_
