#ifndef SERVER_PAGE_LIVE_PAGE_H_
#define SERVER_PAGE_LIVE_PAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/net/http_text.h"
#include "common/trust/job_token.h"
#include "proto/coordinator_service.pb.h"
#include "server/page/log_ring.h"
#include "server/page/page_sessions.h"

namespace capstan {

// Answers browsers: the page, the job's status, logging in and out, and changes of the consistency.
// Whoever has a token logs in with it once, and may then do what the token may. Without tokens
// everybody may do everything. Thread-safe.
class LivePage {
 public:
  struct Options {
    // Required; outlives the page.
    CoordinatorEndpoint* coordinator = nullptr;
    // Required; outlives the page.
    Clock* clock = nullptr;
    // Required; outlives the page.
    const LogRing* log = nullptr;
    // The accepted tokens now; null: there are none, and nobody has to log in. Required.
    std::function<std::shared_ptr<const JobTokens>()> tokens;
    bool is_tls = false;  // whether browsers come over TLS
    std::string host;     // of --http_listen
  };

  // A change of the consistency is answered after this time even if it is not agreed on yet.
  static constexpr absl::Duration kLongestWait = absl::Seconds(5);

  explicit LivePage(Options options) : options_(std::move(options)), sessions_(*options_.clock) {}

  // May block for kLongestWait.
  HttpAnswer Answer(const HttpRequest& request);

 private:
  HttpAnswer Route(const HttpRequest& request);
  // What the browser may do; nothing: it has to log in.
  std::optional<Right> RightOf(const HttpRequest& request);
  // Why the browser may not do what needs a right; nothing: it may.
  std::optional<HttpAnswer> Refuse(const HttpRequest& request, Right needed);
  HttpAnswer Status(const HttpRequest& request);
  HttpAnswer LogIn(const HttpRequest& request);
  // A line in the log, once a minute at most.
  void LogWrongToken();
  HttpAnswer LogOut(const HttpRequest& request);
  HttpAnswer SetConsistency(const HttpRequest& request);
  HttpAnswer Change(v1::SetConsistencyRequest change);

  // Whether the Host header may be this page's. A page of somebody else could otherwise let its own
  // name lead to this address, and read the status of a job without keys.
  bool IsOwnHost(absl::string_view host) const;
  bool IsSameOrigin(const HttpRequest& request) const;
  // The cookie of a session has the port in its name: browsers share cookies between ports.
  std::string CookieName(const HttpRequest& request) const;
  std::string SessionId(const HttpRequest& request) const;
  std::string SetCookie(const HttpRequest& request, absl::string_view id,
                        absl::Duration lifetime) const;

  const Options options_;
  PageSessions sessions_;

  Mutex mu_;
  absl::Time last_log_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  int64_t wrong_tokens_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_changing_ ABSL_GUARDED_BY(mu_) = false;  // a request waits for a change
};

}  // namespace capstan

#endif  // SERVER_PAGE_LIVE_PAGE_H_
