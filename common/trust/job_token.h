#ifndef COMMON_TRUST_JOB_TOKEN_H_
#define COMMON_TRUST_JOB_TOKEN_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// What the holder of a token may do. Each right includes the ones before it.
enum class Right {
  kLook = 1,      // read the job's status
  kRead = 2,      // read trained parameters
  kTakePart = 3,  // be a worker
  kOperate = 4,   // be a server, change the running job, ask for checkpoints
};

// All but kOperate, which the full token has.
inline constexpr Right kWeakerRights[] = {Right::kLook, Right::kRead, Right::kTakePart};

// "look", "read", "take_part" or "operate".
absl::string_view RightName(Right right);

// Bytes that nobody can predict.
std::string RandomBytes(size_t size);

// A new random token: 64 hex digits.
std::string MakeToken();

// The token that has only `right`, derived from a job's full `token`. Whoever has it cannot compute
// the full one: it is an HMAC-SHA256 with the full token as the key.
std::string WeakerToken(absl::string_view token, Right right);

// HMAC-SHA256 (RFC 2104) with `key` over `parts`. The length of each part is authenticated, too.
std::string Mac(absl::string_view key, std::initializer_list<absl::string_view> parts);

// Compares in a time that depends on the lengths alone.
bool AreEqual(absl::string_view a, absl::string_view b);

// The tokens in a file. Immutable: thread-safe.
class JobTokens {
 public:
  struct Token {
    std::string text;
    Right right;
  };

  // Reads a token from each line, at most 8; empty lines are left out. Whoever has the file sends
  // the first token, and accepts all. INVALID_ARGUMENT never contains a token.
  static absl::StatusOr<JobTokens> Parse(absl::string_view text);

  // What to send.
  const std::string& own() const { return accepted_.front().text; }
  // Every accepted token: those of the file have all rights, those derived from them fewer.
  const std::vector<Token>& accepted() const { return accepted_; }
  // Whether the files have the same tokens.
  bool IsSame(const JobTokens& other) const;
  // The accepted token with the text `presented`; null if there is none. The time does not depend
  // on how much of the text is right.
  const Token* Find(absl::string_view presented) const;

 private:
  std::vector<Token> accepted_;
};

}  // namespace capstan

#endif  // COMMON_TRUST_JOB_TOKEN_H_
