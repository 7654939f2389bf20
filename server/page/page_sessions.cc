#include "server/page/page_sessions.h"

#include "absl/strings/escaping.h"

namespace capstan {

std::string PageSessions::Begin(const JobTokens& tokens, absl::string_view token) {
  const JobTokens::Token* const found = tokens.Find(token);
  if (found == nullptr) return "";
  std::string id = absl::BytesToHexString(RandomBytes(32));
  const absl::Time end = clock_.Now() + kLifetime;
  MutexLock lock(&mu_);
  MakeRoomLocked(found->text);
  sessions_[KeyOf(id)] = {found->text, end};
  return id;
}

std::optional<Right> PageSessions::RightOf(const JobTokens& tokens, absl::string_view id) {
  const absl::Time now = clock_.Now();
  MutexLock lock(&mu_);
  const auto session = sessions_.find(KeyOf(id));
  if (session == sessions_.end()) return std::nullopt;
  const JobTokens::Token* const token = tokens.Find(session->second.token);
  if (token != nullptr && now < session->second.end) return token->right;
  sessions_.erase(session);
  return std::nullopt;
}

void PageSessions::End(absl::string_view id) {
  MutexLock lock(&mu_);
  sessions_.erase(KeyOf(id));
}

void PageSessions::MakeRoomLocked(const std::string& token) {
  const bool is_full = sessions_.size() >= kMaxSessions;
  size_t count = 0;
  auto oldest = sessions_.end();
  for (auto next = sessions_.begin(); next != sessions_.end(); ++next) {
    if (!is_full && next->second.token != token) continue;
    ++count;
    if (oldest == sessions_.end() || next->second.end < oldest->second.end) oldest = next;
  }
  if (is_full || count >= kMaxSessionsOfToken) sessions_.erase(oldest);
}

}  // namespace capstan
