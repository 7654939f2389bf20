#ifndef SERVER_PAGE_LIVE_PAGE_SERVER_H_
#define SERVER_PAGE_LIVE_PAGE_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/net/http_listener.h"
#include "common/trust/job_keys.h"
#include "common/trust/job_token.h"
#include "server/page/live_page.h"
#include "server/page/log_ring.h"

namespace capstan {

// The live page of a job at a port of its own (--http_listen). Owned by the coordinator's process.
class LivePageServer {
 public:
  struct Options {
    std::string listen;  // Required: host:port; port 0 chooses a free port
    // These three are required, and outlive the server.
    CoordinatorEndpoint* coordinator = nullptr;
    Clock* clock = nullptr;
    const LogRing* log = nullptr;
    // The accepted tokens now; null: none. Required.
    std::function<std::shared_ptr<const JobTokens>()> tokens;
    // The keys for TLS now. Null: plaintext.
    std::function<std::optional<TlsKeys>()> tls;
    // Plaintext may leave this machine, unless there are tokens: browsers would send them.
    bool is_insecure = false;
  };

  // The errors of HttpListener::Start. INVALID_ARGUMENT also: `listen` leaves this machine in
  // plaintext although it must not.
  static absl::StatusOr<std::unique_ptr<LivePageServer>> Start(Options options);

  // host:port, with the actual port.
  const std::string& address() const { return listener_->address(); }

 private:
  explicit LivePageServer(LivePage::Options options) : page_(std::move(options)) {}

  LivePage page_;
  std::unique_ptr<HttpListener> listener_;  // uses the page
};

}  // namespace capstan

#endif  // SERVER_PAGE_LIVE_PAGE_SERVER_H_
