#include "common/transport/ucx/ucx_transport_of_job.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"

namespace capstan {
namespace {

void WarnOfTcp(const std::string& transports) {
  const std::vector<std::string> names = absl::StrSplit(transports, ',');
  if (std::find(names.begin(), names.end(), "tcp") == names.end()) return;
  LOG(WARNING) << "--ucx_transports=" << transports
               << " opens a port of UCX, and anyone who reaches that can end this process: the "
                  "network is trusted";
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransportOfJob(
    const v1::TransportSpec& spec, Clock* clock,
    std::function<void(const absl::Status&)> on_blocked) {
  if (spec.type() == v1::TransportSpec::GRPC) return std::unique_ptr<UcxTransport>();
  UcxTransport::Options options;
  options.clock = clock;
  options.max_inflight_bytes = spec.max_inflight_bytes();
  options.on_blocked = std::move(on_blocked);
  options.transports = spec.ucx_transports();
  options.polls = spec.ucx_poll() == v1::TransportSpec::BUSY;
  absl::StatusOr<std::unique_ptr<UcxTransport>> transport = StartUcxTransport(options);
  if (transport.ok()) WarnOfTcp(spec.ucx_transports());
  if (transport.ok() || spec.type() != v1::TransportSpec::AUTO) return transport;
  LOG(WARNING) << "exchanges go over gRPC: " << transport.status().message();
  return std::unique_ptr<UcxTransport>();
}

}  // namespace capstan
