#include "common/transport/ucx/ucx_transport.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

#ifndef CAPSTAN_WITHOUT_UCX
#include "common/transport/ucx/ucx_connection.h"
#include "common/transport/ucx/ucx_endpoint.h"
#include "common/transport/ucx/ucx_listener.h"
#include "common/transport/ucx/ucx_thread.h"
#endif

namespace capstan {

#ifdef CAPSTAN_WITHOUT_UCX

absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransport(
    const UcxTransport::Options& /*options*/) {
  return absl::UnimplementedError(
      "this program is built without UCX: use --transport=grpc, or build it without "
      "--config=without_ucx");
}

#else

namespace {

class OwnThread : public UcxTransport {
 public:
  OwnThread(std::unique_ptr<UcxThread> thread, const Options& options)
      : thread_(std::move(thread)),
        clock_(options.clock),
        max_inflight_bytes_(options.max_inflight_bytes),
        member_(options.member) {}

  std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) override {
    return std::make_unique<UcxEndpoint>(address, thread_.get(), clock_, member_);
  }
  std::unique_ptr<Listener> Listen(ParameterEndpoint* endpoint, const ReplyOrder& order) override {
    return std::make_unique<UcxListener>(endpoint, thread_.get(), clock_, max_inflight_bytes_,
                                         order);
  }

 private:
  const std::unique_ptr<UcxThread> thread_;
  Clock* const clock_;
  const uint64_t max_inflight_bytes_;
  const UcxMember member_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransport(
    const UcxTransport::Options& options) {
  UcxThread::Options thread_options;
  thread_options.clock = options.clock;
  thread_options.polls = options.polls;
  thread_options.transports = options.transports;
  thread_options.on_blocked = options.on_blocked;
  ASSIGN_OR_RETURN(std::unique_ptr<UcxThread> thread, UcxThread::Start(thread_options));
  absl::Status prepared;
  thread->RunAndWait([&] { prepared = UcxConnection::Prepare(thread.get()); });
  RETURN_IF_ERROR(prepared);
  return std::make_unique<OwnThread>(std::move(thread), options);
}

#endif

namespace {

// INVALID_ARGUMENT if one of these transports connects hosts.
absl::Status CheckStaysOnHost(const std::string& transports) {
  if (transports.empty()) return absl::OkStatus();
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(transports, ','))) {
    static constexpr absl::string_view kWithinHost[] = {"sm",    "shm", "posix", "sysv",
                                                        "xpmem", "cma", "knem",  "self"};
    if (std::find(std::begin(kWithinHost), std::end(kWithinHost), name) != std::end(kWithinHost)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--field=transport.ucx_transports=", transports,
                     ": expected shared memory alone, as ", name,
                     " sends parameters between hosts without encryption, and may open a port; use "
                     "--transport=grpc, or --insecure_data_plane in a network that you trust"));
  }
  return absl::OkStatus();
}

void WarnOfTcp(const std::string& transports) {
  const std::vector<std::string> names = absl::StrSplit(transports, ',');
  if (std::find(names.begin(), names.end(), "tcp") == names.end()) return;
  LOG(WARNING) << "--field=transport.ucx_transports=" << transports
               << " opens a port of UCX, and anyone who reaches that can end this process: the "
                  "network is trusted";
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransportOfJob(
    const v1::TransportSpec& spec, Clock* clock,
    std::function<void(const absl::Status&)> on_blocked, UcxMember member) {
  if (spec.type() == v1::TransportSpec::GRPC) return std::unique_ptr<UcxTransport>();
  const bool stays_on_host = !member.security->is_insecure() && !spec.insecure_data_plane();
  if (stays_on_host) RETURN_IF_ERROR(CheckStaysOnHost(spec.ucx_transports()));
  UcxTransport::Options options;
  options.clock = clock;
  options.max_inflight_bytes = spec.max_inflight_bytes();
  options.on_blocked = std::move(on_blocked);
  options.transports = spec.ucx_transports();
  if (stays_on_host && options.transports.empty()) options.transports = "sm,self";
  options.member = std::move(member);
  options.polls = spec.ucx_poll() == v1::TransportSpec::BUSY;
  absl::StatusOr<std::unique_ptr<UcxTransport>> transport = StartUcxTransport(options);
  if (transport.ok()) WarnOfTcp(spec.ucx_transports());
  if (transport.ok() || spec.type() != v1::TransportSpec::AUTO) return transport;
  LOG(WARNING) << "exchanges go over gRPC: " << transport.status().message();
  return std::unique_ptr<UcxTransport>();
}

}  // namespace capstan
