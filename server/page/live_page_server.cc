#include "server/page/live_page_server.h"

#include <glog/logging.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/net/listening_socket.h"

namespace capstan {
namespace {

constexpr char kFlag[] = "--http_listen";
// Only one answer at a time waits for a change of the consistency.
constexpr size_t kAnswerThreads = 4;

absl::Status CheckPlaintext(const LivePageServer::Options& options, const std::string& host) {
  if (options.tls != nullptr) return absl::OkStatus();
  if (!options.is_insecure) return CheckLoopback(kFlag, options.listen, host);
  if (options.tokens() == nullptr || CheckLoopback(kFlag, options.listen, host).ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      kFlag, "=", options.listen,
      " can be reached from other machines, and browsers would send the job's token there in "
      "plaintext; expected --keys=DIR without --insecure, or a host such as 127.0.0.1"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LivePageServer>> LivePageServer::Start(Options options) {
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(kFlag, options.listen));
  RETURN_IF_ERROR(CheckPlaintext(options, address.host));
  LivePage::Options page;
  page.coordinator = options.coordinator;
  page.clock = options.clock;
  page.log = options.log;
  page.tokens = options.tokens;
  page.is_tls = options.tls != nullptr;
  page.host = address.host;
  std::unique_ptr<LivePageServer> server(new LivePageServer(std::move(page)));
  HttpListener::Options listening;
  listening.flag = kFlag;
  listening.listen = options.listen;
  listening.clock = options.clock;
  listening.tls = options.tls;
  listening.answer = [page = &server->page_](const HttpRequest& request) {
    return page->Answer(request);
  };
  listening.answer_threads = kAnswerThreads;
  listening.keeps_connections = true;
  ASSIGN_OR_RETURN(server->listener_, HttpListener::Start(std::move(listening)));
  LOG(INFO) << "live page at " << (options.tls != nullptr ? "https://" : "http://")
            << server->address() << "/";
  return server;
}

}  // namespace capstan
