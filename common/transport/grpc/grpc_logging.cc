#include "common/transport/grpc/grpc_logging.h"

#include <glog/logging.h>
#include <grpc/support/log.h>

namespace capstan {

void SendGrpcLogsToVlog() {
  gpr_set_log_function([](gpr_log_func_args* args) {
    VLOG(1) << "gRPC: " << args->file << ":" << args->line << ": " << args->message;
  });
}

}  // namespace capstan
