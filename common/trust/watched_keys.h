#ifndef COMMON_TRUST_WATCHED_KEYS_H_
#define COMMON_TRUST_WATCHED_KEYS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/trust/job_keys.h"

namespace capstan {

// The keys in a folder, read again every second by a thread of its own. New ones replace the
// earlier ones once all files of the folder are right and fit each other. Until then the earlier
// ones stay, and a warning in the log says what is wrong. Thread-safe.
class WatchedKeys {
 public:
  struct Options {
    std::string dir;      // Required.
    bool has_tls = true;  // false: only the tokens are read
    TlsRole role = TlsRole::kClient;
    Clock* clock = nullptr;  // Required; outlives the object
    // Runs with each new TlsKeys, also with the first ones. After an error it gets them again.
    std::function<absl::Status(const TlsKeys&)> on_tls_keys = [](const TlsKeys&) {
      return absl::OkStatus();
    };
  };
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // Warns in the log if every user can read the secret ones. The errors of ReadTlsKeys, ReadTokens
  // and `on_tls_keys`.
  static absl::StatusOr<std::unique_ptr<WatchedKeys>> Open(Options options);
  ~WatchedKeys();

  // None without TLS.
  std::optional<TlsKeys> tls() const;
  std::shared_ptr<const JobTokens> tokens() const;

 private:
  explicit WatchedKeys(Options options) : options_(std::move(options)) {}

  absl::Status Read();
  void Run();

  const Options options_;
  std::string last_error_;  // used by the thread alone

  mutable Mutex mu_;
  CondVar stopped_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<TlsKeys> tls_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const JobTokens> tokens_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_TRUST_WATCHED_KEYS_H_
