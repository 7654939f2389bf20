#ifndef TESTS_TRANSPORT_BLOCKING_ENDPOINT_H_
#define TESTS_TRANSPORT_BLOCKING_ENDPOINT_H_

#include "common/base/clock.h"
#include "common/base/one_shot.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// Blocks the thread of exchange number `blocks_at`, from 1, until the test sets may_go_on. The
// transport's thread or stream then takes no further exchange.
class BlockingEndpoint : public ParameterEndpoint {
 public:
  explicit BlockingEndpoint(Clock* clock, int blocks_at = 1)
      : is_blocked(clock), may_go_on(clock), blocks_at_(blocks_at) {}

  void Exchange(ExchangeRequest&& /*request*/, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    if (++exchanges_ == blocks_at_) {
      is_blocked.Set(true);
      may_go_on.Wait();
    }
    done(ExchangeReply());
  }

  OneShot<bool> is_blocked;
  OneShot<bool> may_go_on;

 private:
  const int blocks_at_;
  int exchanges_ = 0;
};

}  // namespace capstan

#endif  // TESTS_TRANSPORT_BLOCKING_ENDPOINT_H_
