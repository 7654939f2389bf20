#ifndef DEPLOY_CLI_KEYS_MEMBER_KEYS_H_
#define DEPLOY_CLI_KEYS_MEMBER_KEYS_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/trust/make_keys.h"
#include "deploy/cli/keys/key_folder.h"

namespace capstan {

// The private key of the CA. It stays in the folder where it was made.
inline constexpr char kAuthorityKeyFile[] = "ca.key";

// Certificates begin this long before they are made, since clocks of other machines may be behind.
inline constexpr absl::Duration kClockSkew = absl::Hours(1);

// The CA in the folder `dir`. FAILED_PRECONDITION: it is not valid at `now`. Else the errors of
// ReadKeyFile and DescribeAuthority.
absl::StatusOr<KeyPair> ReadAuthority(const std::string& dir, absl::Time now);

// A key with a certificate for `days` from `now` on, or until the CA's end if that is earlier. For
// a server at `hosts`, or without hosts for a client.
absl::StatusOr<KeyPair> MakeMemberKeys(const KeyPair& authority,
                                       const std::vector<std::string>& hosts, int days,
                                       absl::Time now);

// The files of the key and its certificate, in the order of their names' change.
std::vector<KeyFolder::File> MemberFiles(const KeyPair& member);

// Prints "  tls.crt is valid until 2027-11-24 for localhost, ::1" as a line.
absl::Status PrintMember(const KeyPair& authority, const KeyPair& member, std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_KEYS_MEMBER_KEYS_H_
