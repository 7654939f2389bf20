#ifndef COMMON_TRUST_CALL_PROOF_H_
#define COMMON_TRUST_CALL_PROOF_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/trust/job_token.h"

namespace capstan {

// What a call over plaintext carries instead of a token: "milliseconds.nonce.MAC". The MAC is over
// `audience`, `call`, time and nonce, with `token` as the key. `audience` is the process that is
// called, `call` the method. Whoever reads a proof does not learn the token.
std::string MakeCallProof(absl::string_view token, absl::string_view audience,
                          absl::string_view call, absl::Time now);

// Accepts each proof once. Thread-safe.
class CallProofChecker {
 public:
  // Largest difference of the clocks of caller and callee.
  static constexpr absl::Duration kLargestSkew = absl::Minutes(2);

  // The token that has made `proof`. UNAUTHENTICATED: no token of `tokens` has, or not for this
  // `audience` and `call`, or not within kLargestSkew of `now`; or the proof was used before.
  // UNAVAILABLE: there were too many calls with tokens of this right.
  absl::StatusOr<const JobTokens::Token*> Check(const JobTokens& tokens, absl::string_view proof,
                                                absl::string_view audience, absl::string_view call,
                                                absl::Time now);

 private:
  // Bounds the memory, to about 50 MB a right: more calls within the time of validity are refused.
  static constexpr size_t kMostProofs = 1 << 18;

  Mutex mu_;
  // The proofs that could still be sent again: time and nonce. Those of each right by themselves:
  // who may only look cannot shut out members.
  std::map<Right, std::set<std::pair<absl::Time, std::string>>> used_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // COMMON_TRUST_CALL_PROOF_H_
