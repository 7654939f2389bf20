#ifndef COMMON_TRANSPORT_GRPC_CALL_GUARD_H_
#define COMMON_TRANSPORT_GRPC_CALL_GUARD_H_

#include <grpcpp/server_context.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/transport/grpc/grpc_security.h"

namespace capstan {

// Decides which calls a process takes. Each service asks it first. A refused caller gets the
// reason; the log gets one line a second at most, with the number of further ones. Thread-safe.
class CallGuard {
 public:
  // Why a call was refused.
  enum class Reason { kToken, kRight, kTooOften, kTooManyConnections, kOther };
  using Refusals = std::array<int64_t, static_cast<size_t>(Reason::kOther) + 1>;  // by reason
  // As "too_often".
  static absl::string_view ReasonName(Reason reason);

  struct Options {
    SecurityPointer security = NoSecurity();
    Clock* clock = nullptr;  // Required; outlives the guard
    // Largest number of registrations from one host: this many at once, and this many a second.
    double registrations_per_second = 100;
  };
  // See ConnectionGate::Prove.
  using ProveConnection = std::function<bool(const std::string& peer, bool is_member)>;

  explicit CallGuard(Options options) : options_(std::move(options)) {}

  const SecurityPointer& security() const { return options_.security; }
  Clock* clock() const { return options_.clock; }

  // What this process is called in proofs. Set before others know its address.
  void set_audience(const std::string& audience);
  std::string audience() const;
  // GrpcServer sets it. Null: all connections are proved.
  void set_prove_connection(ProveConnection prove);

  // The caller's token. UNAUTHENTICATED: it has none, or a wrong one. PERMISSION_DENIED: the token
  // does not have the right of the call. UNAVAILABLE: there are too many connections.
  // `call` names it as in CallRights.
  absl::StatusOr<JobTokens::Token> Admit(const grpc::ServerContextBase& context,
                                         absl::string_view call);
  // Admit for registrations. UNAVAILABLE also if its host registers too often.
  absl::Status AdmitRegistration(const grpc::ServerContextBase& context, absl::string_view call);

  // Counts a refusal, and writes it into the log. Returns `why`.
  absl::Status Refuse(const grpc::ServerContextBase& context, absl::string_view what,
                      absl::Status why, Reason reason = Reason::kOther);
  // Calls refused so far.
  int64_t refused_calls() const;
  Refusals refusals() const;

 private:
  // The registrations that a host may still make.
  struct Allowance {
    double left;
    absl::Time since;
  };

  absl::StatusOr<JobTokens::Token> Check(const grpc::ServerContextBase& context,
                                         absl::string_view call);
  absl::Status TakeRegistration(const std::string& host);

  const Options options_;

  mutable Mutex mu_;
  std::string audience_ ABSL_GUARDED_BY(mu_);  // empty: no proof is accepted yet
  ProveConnection prove_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Allowance> allowances_ ABSL_GUARDED_BY(mu_);  // of hosts
  int64_t refused_calls_ ABSL_GUARDED_BY(mu_) = 0;
  Refusals refusals_ ABSL_GUARDED_BY(mu_) = {};
  int64_t logged_calls_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time last_log_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_CALL_GUARD_H_
