#ifndef TESTS_TRANSPORT_BLOCKING_ENDPOINT_H_
#define TESTS_TRANSPORT_BLOCKING_ENDPOINT_H_

#include <utility>

#include "common/base/clock.h"
#include "common/base/one_shot.h"
#include "common/transport/parameter_endpoint.h"

namespace capstan {

// Keeps the thread of its first exchange until it is told to go on: of one transport's thread or
// stream, which then takes nothing more.
class BlockingEndpoint : public ParameterEndpoint {
 public:
  explicit BlockingEndpoint(Clock* clock) : is_blocked(clock), may_go_on(clock) {}

  void Exchange(ExchangeRequest /*request*/, SentCallback sent, ReplyCallback done) override {
    sent();
    if (!std::exchange(has_blocked_, true)) {
      is_blocked.Set(true);
      may_go_on.Wait();
    }
    done(ExchangeReply());
  }

  OneShot<bool> is_blocked;
  OneShot<bool> may_go_on;

 private:
  bool has_blocked_ = false;
};

}  // namespace capstan

#endif  // TESTS_TRANSPORT_BLOCKING_ENDPOINT_H_
