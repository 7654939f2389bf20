#include "tests/benchmark/copy/copied_host.h"

#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/transport/grpc/grpc_endpoint.h"

namespace capstan {
namespace {

constexpr char kAnyPort[] = "127.0.0.1:0";

}  // namespace

absl::StatusOr<std::unique_ptr<CopiedHost>> CopiedHost::Create(const BenchmarkJob& job,
                                                               Clock* clock, SlowLink* slow) {
  std::unique_ptr<CopiedHost> copied(new CopiedHost(job));
  ASSIGN_OR_RETURN(copied->host_, job.MakeHost(/*server=*/0));
  GrpcServer::Options options;
  ASSIGN_OR_RETURN(copied->listening_, GrpcServer::Start(kAnyPort, {&copied->service_}, options));
  copied->links_.emplace(
      [clock, slow](const std::string& address) -> std::unique_ptr<ParameterEndpoint> {
        auto endpoint =
            std::make_unique<GrpcEndpoint>(address, clock, NoSecurity(), SenderRole::kServer);
        if (slow == nullptr) return endpoint;
        return slow->Around(std::move(endpoint));
      },
      job.SenderOf(/*server=*/0), clock);
  return copied;
}

CopiedHost::~CopiedHost() {
  if (host_ != nullptr) host_->End(absl::UnavailableError("the benchmark has ended"));
  links_.reset();
}

void CopiedHost::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                          ReplyCallback done) {
  delivered();
  done(host_->TakeRecord(request));
}

uint64_t CopiedHost::MakeCopies() {
  job_.MakeCopies(/*server=*/0, {listening_->address()}, *links_, *host_);
  uint64_t bytes = 0;
  for (const auto& [shard, copy] : host_->copies()) bytes += copy.bytes_copied;
  return bytes;
}

}  // namespace capstan
