#ifndef SERVER_PAGE_PAGE_SESSIONS_H_
#define SERVER_PAGE_PAGE_SESSIONS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/trust/job_token.h"

namespace capstan {

// The browsers that have shown a token. Each has a random id, which its cookie carries instead of
// the token. A session ends after kLifetime, and when its token is no longer accepted. If a token
// has too many, a new one takes the place of its oldest. Thread-safe.
class PageSessions {
 public:
  static constexpr absl::Duration kLifetime = absl::Hours(12);
  static constexpr size_t kMaxSessionsOfToken = 16;
  static constexpr size_t kMaxSessions = 256;  // more than all accepted tokens have

  // `clock` outlives the object.
  explicit PageSessions(Clock& clock) : clock_(clock), key_(RandomBytes(32)) {}

  // The id of a new session; empty: `token` is not one of `tokens`.
  std::string Begin(const JobTokens& tokens, absl::string_view token);
  // What the session may do; nothing: there is no such session.
  std::optional<Right> RightOf(const JobTokens& tokens, absl::string_view id);
  void End(absl::string_view id);

 private:
  struct Session {
    std::string token;
    absl::Time end;
  };

  // The time of a look-up says nothing about an id, because sessions lie under MACs of ids.
  std::string KeyOf(absl::string_view id) const { return Mac(key_, {id}); }
  // Makes room for one more of the token.
  void MakeRoomLocked(const std::string& token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  const std::string key_;

  Mutex mu_;
  std::map<std::string, Session> sessions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // SERVER_PAGE_PAGE_SESSIONS_H_
