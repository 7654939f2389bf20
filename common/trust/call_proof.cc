#include "common/trust/call_proof.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan {
namespace {

constexpr size_t kNonceBytes = 16;
constexpr size_t kLongestProof = 256;  // in characters

std::string MacOf(absl::string_view token, absl::string_view audience, absl::string_view call,
                  absl::string_view time, absl::string_view nonce) {
  return absl::BytesToHexString(Mac(token, {"capstan call", audience, call, time, nonce}));
}

}  // namespace

std::string MakeCallProof(absl::string_view token, absl::string_view audience,
                          absl::string_view call, absl::Time now) {
  const std::string time = absl::StrCat(absl::ToUnixMillis(now));
  const std::string nonce = absl::BytesToHexString(RandomBytes(kNonceBytes));
  return absl::StrCat(time, ".", nonce, ".", MacOf(token, audience, call, time, nonce));
}

absl::StatusOr<const JobTokens::Token*> CallProofChecker::Check(const JobTokens& tokens,
                                                                absl::string_view proof,
                                                                absl::string_view audience,
                                                                absl::string_view call,
                                                                absl::Time now) {
  const std::vector<absl::string_view> parts = absl::StrSplit(proof, '.');
  int64_t milliseconds = 0;
  if (proof.size() > kLongestProof || parts.size() != 3 ||
      !absl::SimpleAtoi(parts[0], &milliseconds)) {
    return absl::UnauthenticatedError("expected a proof of the job's token, got something else");
  }
  const JobTokens::Token* maker = nullptr;
  for (const JobTokens::Token& token : tokens.accepted()) {
    if (AreEqual(parts[2], MacOf(token.text, audience, call, parts[0], parts[1]))) maker = &token;
  }
  if (maker == nullptr) {
    return absl::UnauthenticatedError("expected a proof of the job's token, got another token's");
  }
  const absl::Time made = absl::FromUnixMillis(milliseconds);
  if (absl::AbsDuration(now - made) > kLargestSkew) {
    return absl::UnauthenticatedError(
        absl::StrCat("the clocks of caller and callee differ by ", absl::FormatDuration(now - made),
                     "; expected at most ", absl::FormatDuration(kLargestSkew), ": set them"));
  }
  MutexLock lock(&mu_);
  auto& used = used_[maker->right];
  used.erase(used.begin(), used.lower_bound({now - kLargestSkew, ""}));
  if (used.size() >= kMostProofs)
    return absl::UnavailableError("too many calls; it is tried again");
  if (!used.emplace(made, std::string(parts[1])).second) {
    return absl::UnauthenticatedError("expected a new proof of the job's token, got a used one");
  }
  return maker;
}

}  // namespace capstan
