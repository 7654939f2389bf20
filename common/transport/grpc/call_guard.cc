#include "common/transport/grpc/call_guard.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log_format.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/trust/call_rights.h"

namespace capstan {
namespace {

constexpr absl::Duration kLogInterval = absl::Seconds(1);

// With more hosts, the count begins anew.
constexpr size_t kMostHosts = 1 << 16;

// The caller's address, and the names of its certificate if it has one.
std::string CallerText(const grpc::ServerContextBase& context) {
  std::string text = context.peer();
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return PrintableText(text);
  for (const grpc::string_ref& name : auth->FindPropertyValues("x509_common_name")) {
    absl::StrAppend(&text, " (certificate of ", std::string(name.data(), name.size()), ")");
  }
  return PrintableText(text);
}

// The reason for an error of Check.
CallGuard::Reason ReasonOf(const absl::Status& status) {
  if (absl::IsUnauthenticated(status)) return CallGuard::Reason::kToken;
  if (absl::IsPermissionDenied(status)) return CallGuard::Reason::kRight;
  if (absl::IsUnavailable(status)) return CallGuard::Reason::kTooManyConnections;
  return CallGuard::Reason::kOther;
}

// "ipv4:10.0.0.1" of "ipv4:10.0.0.1:40000".
std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

absl::string_view CallGuard::ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kToken:
      return "token";
    case Reason::kRight:
      return "right";
    case Reason::kTooOften:
      return "too_often";
    case Reason::kTooManyConnections:
      return "too_many_connections";
    case Reason::kOther:
      return "other";
  }
  return "";
}

void CallGuard::set_audience(const std::string& audience) {
  MutexLock lock(&mu_);
  audience_ = audience;
}

std::string CallGuard::audience() const {
  MutexLock lock(&mu_);
  return audience_;
}

void CallGuard::set_prove_connection(ProveConnection prove) {
  MutexLock lock(&mu_);
  prove_ = std::move(prove);
}

absl::StatusOr<JobTokens::Token> CallGuard::Admit(const grpc::ServerContextBase& context,
                                                  absl::string_view call) {
  absl::StatusOr<JobTokens::Token> token = Check(context, call);
  if (!token.ok()) return Refuse(context, call, token.status(), ReasonOf(token.status()));
  return token;
}

absl::Status CallGuard::AdmitRegistration(const grpc::ServerContextBase& context,
                                          absl::string_view call) {
  RETURN_IF_ERROR(Admit(context, call).status());
  absl::Status taken = TakeRegistration(HostOf(context.peer()));
  return taken.ok() ? taken : Refuse(context, call, std::move(taken), Reason::kTooOften);
}

absl::StatusOr<JobTokens::Token> CallGuard::Check(const grpc::ServerContextBase& context,
                                                  absl::string_view call) {
  std::string audience;
  ProveConnection prove;
  {
    MutexLock lock(&mu_);
    audience = audience_;
    prove = prove_;
  }
  ASSIGN_OR_RETURN(JobTokens::Token token, options_.security->TokenOf(context, audience, call));
  const Right needed = RightOfCall(call);
  if (token.right < needed) {
    return absl::PermissionDeniedError(absl::StrCat("expected a token with the right to ",
                                                    RightName(needed), ", got one to ",
                                                    RightName(token.right), " only"));
  }
  // Who may only look or read takes no member's place.
  if (prove != nullptr && !prove(context.peer(), token.right >= Right::kTakePart)) {
    return absl::UnavailableError("there are too many connections (--max_connections)");
  }
  return token;
}

absl::Status CallGuard::TakeRegistration(const std::string& host) {
  const double most = options_.registrations_per_second;
  const absl::Time now = options_.clock->Now();
  MutexLock lock(&mu_);
  if (allowances_.size() > kMostHosts) allowances_.clear();
  Allowance& allowance =
      allowances_.try_emplace(host, Allowance{std::max(most, 1.0), now}).first->second;
  allowance.left = std::min(std::max(most, 1.0),
                            allowance.left + most * absl::ToDoubleSeconds(now - allowance.since));
  allowance.since = now;
  if (allowance.left < 1) {
    return absl::UnavailableError(absl::StrCat(
        "this host registers more often than ", most,
        " times a second (--field=limits.registrations_per_second); it is tried again"));
  }
  allowance.left -= 1;
  return absl::OkStatus();
}

absl::Status CallGuard::Refuse(const grpc::ServerContextBase& context, absl::string_view what,
                               absl::Status why, Reason reason) {
  const absl::Time now = options_.clock->Now();
  int64_t unlogged = 0;
  {
    MutexLock lock(&mu_);
    ++refused_calls_;
    ++refusals_[static_cast<size_t>(reason)];
    if (now < last_log_ + kLogInterval) return why;
    last_log_ = now;
    unlogged = refused_calls_ - logged_calls_ - 1;
    logged_calls_ = refused_calls_;
  }
  const LogDetails details{std::string(why.message())};
  LOG(WARNING) << "refused " << what << " of " << CallerText(context) << ": " << why.message()
               << (unlogged == 0 ? "" : absl::StrCat("; ", unlogged, " more since the last line"));
  return why;
}

int64_t CallGuard::refused_calls() const {
  MutexLock lock(&mu_);
  return refused_calls_;
}

CallGuard::Refusals CallGuard::refusals() const {
  MutexLock lock(&mu_);
  return refusals_;
}

}  // namespace capstan
