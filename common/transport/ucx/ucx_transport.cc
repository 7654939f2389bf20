#include "common/transport/ucx/ucx_transport.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/transport/ucx/ucx_connection.h"
#include "common/transport/ucx/ucx_endpoint.h"
#include "common/transport/ucx/ucx_listener.h"
#include "common/transport/ucx/ucx_thread.h"

namespace capstan {
namespace {

class OwnThread : public UcxTransport {
 public:
  OwnThread(std::unique_ptr<UcxThread> thread, const Options& options)
      : thread_(std::move(thread)),
        clock_(options.clock),
        max_inflight_bytes_(options.max_inflight_bytes) {}

  std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) override {
    return std::make_unique<UcxEndpoint>(address, thread_.get(), clock_);
  }
  std::unique_ptr<Listener> Listen(ParameterEndpoint* endpoint, const ReplyOrder& order) override {
    return std::make_unique<UcxListener>(endpoint, thread_.get(), clock_, max_inflight_bytes_,
                                         order);
  }

 private:
  const std::unique_ptr<UcxThread> thread_;
  Clock* const clock_;
  const uint64_t max_inflight_bytes_;
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

}  // namespace capstan
