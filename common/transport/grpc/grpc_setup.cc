#include "common/transport/grpc/grpc_setup.h"

#include <glog/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include "absl/time/time.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

// Time between two pings of an idle server, and the time that it has to answer one.
constexpr absl::Duration kKeepalive = absl::Seconds(5);

}  // namespace

std::shared_ptr<grpc::Channel> MakeGrpcChannel(const std::string& address,
                                               const GrpcSecurity& security) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(kKeepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, absl::ToInt64Milliseconds(kKeepalive));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  // The least time that gRPC gives an attempt to connect. A refused attempt is repeated sooner.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // No environment variable configures anything, not even a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Channels of one process never share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, security.channel_credentials(), arguments);
}

grpc::Status GrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), CutText(status.message()));
}

absl::Status AbslStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      CutText(PrintableText(status.error_message())));
}

void SendGrpcLogsToVlog() {
  gpr_set_log_function([](gpr_log_func_args* args) {
    VLOG(1) << "gRPC: " << args->file << ":" << args->line << ": " << args->message;
  });
}

}  // namespace capstan
