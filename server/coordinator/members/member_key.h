#ifndef SERVER_COORDINATOR_MEMBERS_MEMBER_KEY_H_
#define SERVER_COORDINATOR_MEMBERS_MEMBER_KEY_H_

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

using Role = v1::HeartbeatRequest::Role;

// Names one server or worker of the job, or another process of the worker.
struct MemberKey {
  Role role = v1::HeartbeatRequest::ROLE_UNSPECIFIED;
  uint32_t id = 0;
  uint32_t part = 0;  // HeartbeatRequest::part; 0: the member itself

  friend bool operator==(MemberKey a, MemberKey b) {
    return std::tie(a.role, a.id, a.part) == std::tie(b.role, b.id, b.part);
  }
  friend bool operator<(MemberKey a, MemberKey b) {
    return std::tie(a.role, a.id, a.part) < std::tie(b.role, b.id, b.part);
  }
};

inline const char* RoleName(Role role) {
  return role == v1::HeartbeatRequest::SERVER ? "server" : "worker";
}

// "worker 1".
inline std::string MemberName(MemberKey member) {
  return absl::StrCat(RoleName(member.role), " ", member.id);
}

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_MEMBER_KEY_H_
