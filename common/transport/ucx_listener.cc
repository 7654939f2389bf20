#include "common/transport/ucx_listener.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <netinet/in.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/transport/frame.h"
#include "common/transport/ucx_address.h"

namespace capstan {

// One connected worker. Lives until it is gone and no exchange of it is parked any more.
class UcxListener::Client : public UcxConnection::Receiver,
                            public std::enable_shared_from_this<Client> {
 public:
  explicit Client(UcxListener* listener) : listener_(listener), thread_(listener->thread_) {}

  absl::Status Accept(ucp_conn_request_h request) {
    ASSIGN_OR_RETURN(connection_, UcxConnection::Accept(thread_, request, this));
    return absl::OkStatus();
  }
  void Close() {
    connection_ = nullptr;
    MutexLock lock(&mu_);
    is_closed_ = true;
  }

  std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                         size_t payload_bytes) override {
    absl::StatusOr<RequestFrame> frame = DecodeRequestHeader(header);
    if (!frame.ok()) {
      Reply(/*request_id=*/0, ErrorReply(frame.status()));
      return nullptr;
    }
    return std::make_unique<ArrivingRequest>(this, *std::move(frame), payload_bytes);
  }

  void OnBroken(const absl::Status& /*status*/) override {
    Close();
    listener_->clients_.erase(this);  // Destroys this, unless an exchange is parked.
  }

 private:
  // A request whose gradient is on its way.
  class ArrivingRequest : public UcxIncoming {
   public:
    ArrivingRequest(Client* client, RequestFrame frame, size_t bytes)
        : client_(client), frame_(std::move(frame)) {
      if (bytes == 0) return;
      std::shared_ptr<uint8_t> memory = client->listener_->buffers_.Take(bytes);
      buffer_ = memory.get();
      frame_.request.gradient = Payload::Exclusive(std::move(memory), bytes);
    }
    void* buffer() override { return buffer_; }
    void Done(absl::Status received) override {
      if (!received.ok()) return client_->Reply(frame_.request_id, ErrorReply(received));
      client_->Exchange(std::move(frame_));
    }

   private:
    Client* const client_;
    RequestFrame frame_;
    uint8_t* buffer_ = nullptr;
  };

  void Exchange(RequestFrame frame) {
    listener_->endpoint_->Exchange(
        std::move(frame.request), [] {},
        [self = shared_from_this(), id = frame.request_id](ExchangeReply reply) {
          self->Answer(id, std::move(reply));
        });
  }

  // On any thread; goes nowhere once the client is closed, as the UCX thread may have ended then.
  void Answer(uint64_t request_id, ExchangeReply reply) {
    {
      MutexLock lock(&mu_);
      if (is_closed_) return;
      if (!thread_->is_current()) {
        return thread_->RunLater(
            [self = shared_from_this(), request_id, reply = std::move(reply)]() mutable {
              self->Reply(request_id, std::move(reply));
            });
      }
    }
    Reply(request_id, std::move(reply));
  }

  void Reply(uint64_t request_id, ExchangeReply reply) {
    if (connection_ == nullptr) return;
    std::string header = EncodeReplyHeader(request_id, reply);
    connection_->Send(std::move(header), std::move(reply.values), [] {});
  }

  UcxListener* const listener_;
  UcxThread* const thread_;
  std::unique_ptr<UcxConnection> connection_;  // of the thread alone; null once it is closed
  Mutex mu_;
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
};

absl::StatusOr<std::unique_ptr<UcxListener>> UcxListener::Start(const std::string& listen,
                                                                ParameterEndpoint* endpoint,
                                                                UcxThread* thread) {
  std::unique_ptr<UcxListener> listener(new UcxListener(endpoint, thread));
  absl::Status status;
  thread->RunAndWait([&] { status = listener->Listen(listen); });
  RETURN_IF_ERROR(status);
  return listener;
}

absl::Status UcxListener::Listen(const std::string& listen) {
  ASSIGN_OR_RETURN(const UcxAddress address, ResolveUcxAddress(listen));
  ucp_listener_params_t params = {};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = address.sockaddr();
  params.conn_handler.cb = &OnConnection;
  acceptor_ = std::make_shared<Acceptor>();
  acceptor_->listener = this;
  params.conn_handler.arg = acceptor_.get();
  RETURN_IF_ERROR(
      Annotate(UcxStatus(ucp_listener_create(thread_->worker(), &params, &acceptor_->handle),
                         "ucp_listener_create"),
               absl::StrCat("cannot listen on ", listen)));
  ucp_listener_attr_t taken = {};
  taken.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  RETURN_IF_ERROR(UcxStatus(ucp_listener_query(acceptor_->handle, &taken), "ucp_listener_query"));
  const in_port_t port = reinterpret_cast<const sockaddr_in&>(taken.sockaddr).sin_port;
  address_ = absl::StrCat(listen.substr(0, listen.rfind(':') + 1), ntohs(port));
  return absl::OkStatus();
}

UcxListener::~UcxListener() {
  thread_->RunAndWait([this] {
    if (acceptor_ != nullptr && acceptor_->handle != nullptr) {
      acceptor_->listener = nullptr;
      thread_->Keep(acceptor_);
      thread_->Retire(acceptor_->handle);
    }
    for (auto& [raw, client] : clients_) client->Close();
    clients_.clear();
  });
}

void UcxListener::OnConnection(ucp_conn_request_h request, void* argument) {
  const auto* const acceptor = static_cast<Acceptor*>(argument);
  if (acceptor->listener == nullptr) {
    ucp_listener_reject(acceptor->handle, request);
    return;
  }
  auto client = std::make_shared<Client>(acceptor->listener);
  if (absl::Status status = client->Accept(request); !status.ok()) {
    LOG(WARNING) << "a worker could not connect: " << status;
    return;
  }
  acceptor->listener->clients_.emplace(client.get(), client);
}

}  // namespace capstan
