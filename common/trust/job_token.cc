#include "common/trust/job_token.h"

#include <glog/logging.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/little_endian.h"

namespace capstan {
namespace {

constexpr size_t kRandomBytes = 32;
constexpr size_t kShortest = 16;  // in characters
constexpr size_t kLongest = 512;
constexpr size_t kMostTokens = 8;

absl::Status CheckToken(absl::string_view token, size_t line) {
  const bool is_visible = std::all_of(token.begin(), token.end(), absl::ascii_isgraph);
  if (is_visible && token.size() >= kShortest && token.size() <= kLongest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "line ", line, ": expected a token of ", kShortest, " to ", kLongest,
      " visible characters, got ", token.size(), is_visible ? "" : ", some of them not visible"));
}

}  // namespace

absl::string_view RightName(Right right) {
  switch (right) {
    case Right::kLook:
      return "look";
    case Right::kRead:
      return "read";
    case Right::kTakePart:
      return "take_part";
    case Right::kOperate:
      return "operate";
  }
  return "";
}

std::string MakeToken() { return absl::BytesToHexString(RandomBytes(kRandomBytes)); }

std::string RandomBytes(size_t size) {
  std::string bytes(size, '\0');
  const int made = RAND_bytes(reinterpret_cast<unsigned char*>(&bytes[0]), static_cast<int>(size));
  CHECK_EQ(made, 1) << "the system has no random numbers";
  return bytes;
}

std::string WeakerToken(absl::string_view token, Right right) {
  return absl::BytesToHexString(Mac(token, {"capstan right", RightName(right)}));
}

std::string Mac(absl::string_view key, std::initializer_list<absl::string_view> parts) {
  std::string message;
  for (const absl::string_view part : parts) {
    AppendLittleEndian(uint64_t{part.size()}, &message);
    message.append(part.data(), part.size());
  }
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(), mac, &size);
  return std::string(reinterpret_cast<const char*>(mac), size);
}

bool AreEqual(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::StatusOr<JobTokens> JobTokens::Parse(absl::string_view text) {
  JobTokens tokens;
  size_t line = 0;
  for (absl::string_view token : absl::StrSplit(text, '\n')) {
    ++line;
    token = absl::StripAsciiWhitespace(token);
    if (token.empty()) continue;
    if (absl::Status status = CheckToken(token, line); !status.ok()) return status;
    tokens.accepted_.push_back({std::string(token), Right::kOperate});
  }
  const size_t count = tokens.accepted_.size();
  if (count == 0 || count > kMostTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected 1 to ", kMostTokens, " tokens, each on a line, got ", count));
  }
  for (size_t i = 0; i < count; ++i) {
    for (const Right right : kWeakerRights) {
      tokens.accepted_.push_back({WeakerToken(tokens.accepted_[i].text, right), right});
    }
  }
  return tokens;
}

bool JobTokens::IsSame(const JobTokens& other) const {
  return std::equal(accepted_.begin(), accepted_.end(), other.accepted_.begin(),
                    other.accepted_.end(),
                    [](const Token& a, const Token& b) { return AreEqual(a.text, b.text); });
}

const JobTokens::Token* JobTokens::Find(absl::string_view presented) const {
  // MACs under a key of this call have one length, whatever the tokens are.
  const std::string key = RandomBytes(kRandomBytes);
  const std::string mac = Mac(key, {presented});
  const Token* found = nullptr;
  for (const Token& token : accepted_) {
    if (AreEqual(mac, Mac(key, {token.text}))) found = &token;
  }
  return found;
}

}  // namespace capstan
