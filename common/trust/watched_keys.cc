#include "common/trust/watched_keys.h"

#include <glog/logging.h>

#include <utility>

#include "absl/status/status.h"
#include "common/base/log_format.h"
#include "common/base/status_macros.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<WatchedKeys>> WatchedKeys::Open(Options options) {
  std::unique_ptr<WatchedKeys> keys(new WatchedKeys(std::move(options)));
  RETURN_IF_ERROR(keys->Read());
  const std::string warning = WarningOfOpenKeys(keys->options_.dir);
  if (!warning.empty()) LOG(WARNING) << warning;
  keys->thread_ = std::thread([keys = keys.get()] { keys->Run(); });
  return keys;
}

WatchedKeys::~WatchedKeys() {
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    stopped_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

std::optional<TlsKeys> WatchedKeys::tls() const {
  MutexLock lock(&mu_);
  return tls_;
}

std::shared_ptr<const JobTokens> WatchedKeys::tokens() const {
  MutexLock lock(&mu_);
  return tokens_;
}

absl::Status WatchedKeys::Read() {
  ASSIGN_OR_RETURN(JobTokens tokens, ReadTokens(options_.dir));
  std::optional<TlsKeys> tls;
  if (options_.has_tls) {
    ASSIGN_OR_RETURN(tls, ReadTlsKeys(options_.dir, options_.clock->Now(), options_.role));
  }
  // Only this function changes the members.
  const std::shared_ptr<const JobTokens> earlier = this->tokens();
  const bool has_new_tls = tls.has_value() && this->tls() != tls;
  if (has_new_tls) RETURN_IF_ERROR(options_.on_tls_keys(*tls));
  const bool is_changed = earlier != nullptr && (has_new_tls || !earlier->IsSame(tokens));
  {
    MutexLock lock(&mu_);
    tokens_ = std::make_shared<const JobTokens>(std::move(tokens));
    tls_ = std::move(tls);
  }
  if (is_changed) LOG(INFO) << "new keys in " << options_.dir << " are in use";
  return absl::OkStatus();
}

void WatchedKeys::Run() {
  while (true) {
    {
      MutexLock lock(&mu_);
      const absl::Time next = options_.clock->Now() + kInterval;
      while (!is_stopping_ && options_.clock->Now() < next) {
        options_.clock->WaitUntil(mu_, stopped_, next);
      }
      if (is_stopping_) return;
    }
    const std::string error(Read().message());
    if (!error.empty() && error != last_error_) {
      const LogDetails details(error);
      LOG(WARNING) << "the earlier keys stay in use: " << error;
    }
    last_error_ = error;
  }
}

}  // namespace capstan
