#ifndef SERVER_COORDINATOR_MEMBERS_MEMBER_LOSS_H_
#define SERVER_COORDINATOR_MEMBERS_MEMBER_LOSS_H_

#include <cstdint>
#include <map>
#include <string>

#include "proto/coordinator_service.pb.h"
#include "server/coordinator/members/job_event.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// What becomes of a job that loses a member: it fails, or it goes on.
struct MemberLoss {
  bool fails_job = false;
  bool changes_bits = false;  // the parameters get other bits than those of an undisturbed job
  JobEvent event;             // its text is also why the job fails
};

// A process has failed, and said so: a live member, or one that has not registered.
MemberLoss LossByFailure(const v1::ReportFailureRequest& failure, const JobFacts& facts);

// Why a server is no member any more.
struct ServerEnd {
  std::string end;     // as Member::end
  std::string what;    // "has been silent for 10 s (lease)"
  std::string reason;  // in short
};

// A server is no member any more, and `shards_without_copy` of its shards are lost with it, or all.
// `newest_checkpoint` is empty if there is none.
MemberLoss LossOfServer(uint32_t server, const ServerEnd& end, uint32_t shards_without_copy,
                        const JobFacts& facts, const std::string& newest_checkpoint);

// The same, but its shards had whole copies: other servers have `taken` them, so many each.
// `copies_not_whole` is over all shards.
MemberLoss LossOfServerWithCopies(uint32_t server, const ServerEnd& end,
                                  const std::map<uint32_t, uint32_t>& taken,
                                  uint32_t copies_not_whole, const JobFacts& facts);

// A worker is no member any more, before the result is known. `what` says why in a line, and
// `reason` in short.
MemberLoss LossOfWorker(uint32_t worker, const std::string& what, const std::string& reason,
                        const JobFacts& facts);

// A worker is no member any more, and it is not needed: the result is known.
MemberLoss LossAfterResult(const std::string& what, const std::string& reason);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_MEMBER_LOSS_H_
