#include "deploy/cli/keys/member_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/trust/job_keys.h"

namespace capstan {
namespace {

std::string DayText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<KeyPair> ReadAuthority(const std::string& dir, absl::Time now) {
  const std::string path = absl::StrCat(dir, "/", kAuthorityFile);
  KeyPair authority;
  ASSIGN_OR_RETURN(authority.certificate, ReadKeyFile(dir, kAuthorityFile));
  ASSIGN_OR_RETURN(authority.private_key, ReadKeyFile(dir, kAuthorityKeyFile));
  const absl::StatusOr<CertificateSpec> spec = DescribeAuthority(authority);
  if (!spec.ok()) {
    return Annotate(spec.status(), absl::StrCat(path, " and ", dir, "/", kAuthorityKeyFile));
  }
  if (spec->begin <= now && now < spec->end) return authority;
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": expected a CA that is valid now (", DayText(now), "), got one from ",
      DayText(spec->begin), " to ", DayText(spec->end),
      "; check this machine's clock, or make keys in another folder and hand them to everybody"));
}

absl::StatusOr<KeyPair> MakeMemberKeys(const KeyPair& authority,
                                       const std::vector<std::string>& hosts, int days,
                                       absl::Time now) {
  ASSIGN_OR_RETURN(const CertificateSpec signer, DescribeAuthority(authority));
  CertificateSpec spec;
  spec.name = hosts.empty() ? "Capstan client" : "Capstan";
  spec.hosts = hosts;
  spec.begin = now - kClockSkew;
  spec.end = std::min(now + days * absl::Hours(24), signer.end);
  spec.is_server = !hosts.empty();
  return MakeCertificate(authority, spec);
}

std::vector<KeyFolder::File> MemberFiles(const KeyPair& member) {
  return {{kPrivateKeyFile, member.private_key, /*is_private=*/true},
          {kCertificateFile, member.certificate, /*is_private=*/false}};
}

absl::Status PrintMember(const KeyPair& authority, const KeyPair& member, std::ostream& out) {
  ASSIGN_OR_RETURN(const CertificateSpec signer, DescribeAuthority(authority));
  ASSIGN_OR_RETURN(const CertificateSpec spec, DescribeCertificate(member.certificate));
  out << "  " << kCertificateFile << " is valid until " << DayText(spec.end)
      << (spec.end == signer.end ? ", the end of its CA," : "") << " for "
      << (spec.is_server ? absl::StrJoin(spec.hosts, ", ") : "a client") << std::endl;
  return absl::OkStatus();
}

}  // namespace capstan
