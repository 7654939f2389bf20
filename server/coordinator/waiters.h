#ifndef SERVER_COORDINATOR_WAITERS_H_
#define SERVER_COORDINATOR_WAITERS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/membership/coordinator_endpoint.h"

namespace capstan {

// Callers that wait for the reply to something with a number: a change of the consistency, or a
// checkpoint. Not thread-safe.
template <typename Reply>
class Waiters {
 public:
  using Callback = CoordinatorEndpoint::Callback<Reply>;
  // A caller, and what it is to hear without the owner's lock.
  struct Answer {
    Callback done;
    absl::StatusOr<Reply> reply;
  };

  void Add(uint64_t number, Callback done) { waiting_.emplace_back(number, std::move(done)); }

  // Takes out the callers for whose number `reply` has a reply.
  std::vector<Answer> TakeAnswered(
      absl::FunctionRef<std::optional<absl::StatusOr<Reply>>(uint64_t number)> reply) {
    std::vector<Answer> answers;
    for (auto& [number, done] : std::exchange(waiting_, {})) {
      if (auto answer = reply(number)) {
        answers.push_back({std::move(done), *std::move(answer)});
      } else {
        waiting_.emplace_back(number, std::move(done));
      }
    }
    return answers;
  }

 private:
  std::vector<std::pair<uint64_t, Callback>> waiting_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_WAITERS_H_
