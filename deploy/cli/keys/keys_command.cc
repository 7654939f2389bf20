#include "deploy/cli/keys/keys_command.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/trust/job_keys.h"
#include "common/trust/job_token.h"
#include "common/trust/make_keys.h"
#include "deploy/cli/keys/key_folder.h"
#include "deploy/cli/keys/member_keys.h"

namespace capstan {
namespace {

using Files = std::vector<KeyFolder::File>;

// The CA outlives many certificates: everybody needs its certificate, so a new one is work.
constexpr int kAuthorityDays = 3650;

void Append(const Files& more, Files* files) {
  files->insert(files->end(), more.begin(), more.end());
}

// The names by which programs on this machine call it.
std::vector<std::string> OwnHosts() {
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "::1"};
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, HOST_NAME_MAX);
  if (CheckHost(name).ok() && hosts.front() != name) hosts.emplace_back(name);
  return hosts;
}

// Whether the folder is empty, half-made or whole, and this command has made it.
absl::Status CheckOwn(const std::string& dir, const KeyFolder& folder) {
  for (const char* const name : {kCertificateFile, kPrivateKeyFile, kAuthorityFile}) {
    if (!folder.Has(name)) continue;
    if (!folder.Has(kAuthorityKeyFile)) {
      return absl::FailedPreconditionError(
          absl::StrCat(dir, ": expected an empty folder, or one with the private key of its CA, ",
                       "got ", name, " but no ", kAuthorityKeyFile,
                       "; choose another folder, or renew these keys where they come from"));
    }
    if (!folder.Has(kAuthorityFile)) {
      return absl::FailedPreconditionError(absl::StrCat(
          dir, ": expected ", kAuthorityFile, " beside ", kAuthorityKeyFile,
          ", got none; copy it from another folder of these keys, or choose another folder"));
    }
  }
  return absl::OkStatus();
}

// The CA in the folder, or a new one: then its files are added.
absl::StatusOr<KeyPair> FindAuthority(const KeysRequest& request, absl::Time now,
                                      const KeyFolder& folder, Files* files) {
  // The private key of a CA without a certificate is what a crash has left. Nobody trusts it.
  if (folder.Has(kAuthorityFile)) return ReadAuthority(request.out, now);
  const std::string name = absl::StrCat("Capstan CA ", absl::BytesToHexString(RandomBytes(4)));
  const absl::Time end = now + std::max(request.days, kAuthorityDays) * absl::Hours(24);
  ASSIGN_OR_RETURN(KeyPair authority, MakeAuthority(name, now - kClockSkew, end));
  files->push_back({kAuthorityKeyFile, authority.private_key, /*is_private=*/true});
  files->push_back({kAuthorityFile, authority.certificate, /*is_private=*/false});
  return authority;
}

// Checks the token in the folder, or adds a new one.
absl::Status FindToken(const std::string& dir, const KeyFolder& folder, Files* files) {
  if (folder.Has(kTokenFile)) return ReadTokens(dir).status();
  files->push_back({kTokenFile, absl::StrCat(MakeToken(), "\n"), /*is_private=*/true});
  return absl::OkStatus();
}

// The hosts for a new certificate in the folder.
absl::StatusOr<std::vector<std::string>> HostsFor(const KeysRequest& request,
                                                  const KeyFolder& folder) {
  if (!request.hosts.empty()) return request.hosts;
  if (!folder.Has(kCertificateFile)) return OwnHosts();
  ASSIGN_OR_RETURN(const std::string pem, ReadKeyFile(request.out, kCertificateFile));
  const absl::StatusOr<CertificateSpec> spec = DescribeCertificate(pem);
  if (spec.ok() && !spec->hosts.empty()) return spec->hosts;
  return absl::FailedPreconditionError(
      absl::StrCat(request.out, "/", kCertificateFile,
                   ": expected a certificate with hosts, got none; name them with --hosts"));
}

// `capstan keys --out`.
absl::Status MakeKeys(const KeysRequest& request, absl::Time now, std::ostream& out) {
  ASSIGN_OR_RETURN(const KeyFolder folder, KeyFolder::Open(request.out));
  RETURN_IF_ERROR(CheckOwn(request.out, folder));
  const bool had_authority = folder.Has(kAuthorityFile);
  const bool had_token = folder.Has(kTokenFile);
  const bool had_certificate = folder.Has(kCertificateFile);
  Files files;
  ASSIGN_OR_RETURN(const KeyPair authority, FindAuthority(request, now, folder, &files));
  RETURN_IF_ERROR(FindToken(request.out, folder, &files));
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, HostsFor(request, folder));
  ASSIGN_OR_RETURN(const KeyPair member, MakeMemberKeys(authority, hosts, request.days, now));
  Append(MemberFiles(member), &files);
  RETURN_IF_ERROR(folder.Write(files));
  out << PrintableText(request.out) << ": " << (had_authority ? "the CA stays" : "a new CA") << ", "
      << (had_token ? "the token stays" : "a new token") << ", a new certificate and private key\n";
  RETURN_IF_ERROR(PrintMember(authority, member, out));
  out << (had_certificate ? "  running processes read the new keys by themselves"
                          : "  whoever has ca.key or token may do everything; capstan keys --from "
                            "makes keys with fewer rights")
      << std::endl;
  return absl::OkStatus();
}

// Whether `request.from` has the full token and what else it takes.
absl::Status CheckSource(const KeysRequest& request) {
  std::error_code ignored;
  if (std::filesystem::equivalent(request.from, request.out, ignored)) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected another folder for --out than for --from, got ", request.out));
  }
  // Nobody accepts what is derived from a weaker token.
  const absl::StatusOr<std::string> pem = ReadKeyFile(request.from, kCertificateFile);
  const absl::StatusOr<CertificateSpec> spec = DescribeCertificate(pem.ok() ? *pem : "");
  if (spec.ok() && !spec->is_server) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.from, ": expected the folder with the full token, got one whose ",
                     kCertificateFile, " is a client's, as capstan keys --right makes it"));
  }
  return absl::OkStatus();
}

// The CA that signs for the new folder. None: the certificates come from elsewhere.
absl::StatusOr<std::optional<KeyPair>> FindSigner(const KeysRequest& request, absl::Time now) {
  std::error_code ignored;
  if (std::filesystem::exists(absl::StrCat(request.from, "/", kAuthorityKeyFile), ignored)) {
    return ReadAuthority(request.from, now);
  }
  if (request.right.has_value()) return std::nullopt;
  return absl::FailedPreconditionError(absl::StrCat(
      request.from, ": expected ", kAuthorityKeyFile, ", which signs certificates, got none; copy ",
      kTokenFile, " and ", kAuthorityFile, " by hand, and have ", kCertificateFile, " and ",
      kPrivateKeyFile, " made where those of this folder come from"));
}

// The tokens for whoever gets the new folder.
std::string TokenText(const JobTokens& tokens, std::optional<Right> right) {
  if (right.has_value()) return absl::StrCat(WeakerToken(tokens.own(), *right), "\n");
  std::string text;
  for (const JobTokens::Token& token : tokens.accepted()) {
    if (token.right == Right::kOperate) absl::StrAppend(&text, token.text, "\n");
  }
  return text;
}

// The certificates of the source's CAs; empty: it has none, as without TLS.
absl::StatusOr<std::string> AuthoritiesOf(const std::string& dir) {
  absl::StatusOr<std::string> text = ReadKeyFile(dir, kAuthorityFile);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

// Whether one of two texts of certificates contains the other one. While a CA is replaced, one of
// them also has the other CA.
bool HaveSameAuthority(absl::string_view a, absl::string_view b) {
  a = absl::StripAsciiWhitespace(a);
  b = absl::StripAsciiWhitespace(b);
  return !a.empty() && !b.empty() && (absl::StrContains(a, b) || absl::StrContains(b, a));
}

// Whether the folder is empty, or has keys of the CAs in `authorities`.
absl::Status CheckTarget(const std::string& dir, const KeyFolder& folder,
                         const std::string& authorities) {
  ASSIGN_OR_RETURN(const std::string earlier, AuthoritiesOf(dir));
  const bool has_own_authority = folder.Has(kAuthorityKeyFile);
  if (!has_own_authority && HaveSameAuthority(authorities, earlier)) return absl::OkStatus();
  for (const char* const name :
       {kAuthorityKeyFile, kAuthorityFile, kCertificateFile, kPrivateKeyFile}) {
    if (!folder.Has(name)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(dir, ": expected an empty folder, or one that has keys of the same CA, got ",
                     name, " of other keys; choose another folder for --out"));
  }
  return absl::OkStatus();
}

// Whether the folder has no token that `tokens` know with another right than the wanted one: some
// process may need it.
absl::Status CheckSameRight(const std::string& dir, const JobTokens& tokens, Right wanted) {
  const absl::StatusOr<JobTokens> earlier = ReadTokens(dir);
  if (!earlier.ok()) return absl::OkStatus();  // There is none, or none that anybody could use.
  const JobTokens::Token* const token = tokens.Find(earlier->own());
  if (token == nullptr || token->right == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      dir, ": expected an empty folder, or one with the right ", RightName(wanted),
      ", got one with the right ", RightName(token->right), "; choose another folder for --out"));
}

void PrintPassedOn(const KeysRequest& request, std::ostream& out) {
  out << PrintableText(request.out) << ": keys for "
      << (request.right.has_value() ? absl::StrCat("the right ", RightName(*request.right))
                                    : "all rights")
      << ", from " << PrintableText(request.from) << std::endl;
}

// `capstan keys --from --out`.
absl::Status PassKeysOn(const KeysRequest& request, absl::Time now, std::ostream& out) {
  ASSIGN_OR_RETURN(const JobTokens tokens, ReadTokens(request.from));
  RETURN_IF_ERROR(CheckSource(request));
  ASSIGN_OR_RETURN(const std::optional<KeyPair> signer, FindSigner(request, now));
  ASSIGN_OR_RETURN(const std::string authorities, AuthoritiesOf(request.from));
  Files files;
  // The CAs go first: by them, a second try knows the folder.
  if (!authorities.empty()) files.push_back({kAuthorityFile, authorities, /*is_private=*/false});
  files.push_back({kTokenFile, TokenText(tokens, request.right), /*is_private=*/true});
  KeyPair member;
  if (signer.has_value()) {
    ASSIGN_OR_RETURN(member, MakeMemberKeys(*signer, request.hosts, request.days, now));
    Append(MemberFiles(member), &files);
  }
  ASSIGN_OR_RETURN(const KeyFolder folder, KeyFolder::Open(request.out));
  RETURN_IF_ERROR(CheckTarget(request.out, folder, authorities));
  RETURN_IF_ERROR(CheckSameRight(request.out, tokens, request.right.value_or(Right::kOperate)));
  RETURN_IF_ERROR(folder.Write(files));
  PrintPassedOn(request, out);
  if (signer.has_value()) return PrintMember(*signer, member, out);
  out << "  " << PrintableText(request.from) << " has no " << kAuthorityKeyFile
      << ": add a client's " << kCertificateFile << " and " << kPrivateKeyFile
      << ", made where its own come from" << std::endl;
  return absl::OkStatus();
}

}  // namespace

absl::Status KeysCommand(const KeysRequest& request, absl::Time now, std::ostream& out) {
  return request.from.empty() ? MakeKeys(request, now, out) : PassKeysOn(request, now, out);
}

}  // namespace capstan
