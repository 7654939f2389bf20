#include "common/transport/ucx_listener.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <netinet/in.h>

#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/tensor/slicing.h"
#include "common/transport/bounded_replies.h"
#include "common/transport/frame_header.h"
#include "common/transport/ucx_address.h"

namespace capstan {

// One connected worker. Lives until it is gone and no exchange of it is parked any more.
class UcxListener::Client : public UcxConnection::Receiver, public BoundedReplies {
 public:
  // On the UCX thread.
  explicit Client(UcxListener* listener)
      : BoundedReplies(listener->endpoint_, listener->max_inflight_bytes_, listener->order_),
        listener_(listener),
        thread_(listener->thread_),
        ucx_thread_id_(std::this_thread::get_id()) {}

  absl::Status Accept(ucp_conn_request_h request) {
    ASSIGN_OR_RETURN(connection_,
                     UcxConnection::Accept(thread_, request, this, listener_->max_inflight_bytes_));
    return absl::OkStatus();
  }
  void End() {
    Close();
    connection_ = nullptr;
    MutexLock lock(&mu_);
    is_ended_ = true;
  }

  std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                         size_t payload_bytes) override {
    auto request = std::make_unique<ArrivingRequest>(this, payload_bytes);
    absl::Status status = DecodeRequestHeader(header, request->frame());
    if (status.ok() && payload_bytes > kMaxSliceBytes) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "expected a payload of at most ", kMaxSliceBytes, " bytes, got ", payload_bytes));
    }
    if (!status.ok()) {
      SendError(request->frame()->request_id, ErrorReply(status));
      Release(payload_bytes);
      return nullptr;
    }
    request->TakeBuffer();
    return request;
  }

  void OnBroken(const absl::Status& /*status*/) override {
    End();
    listener_->clients_.erase(this);  // Destroys this, unless an exchange is parked.
  }

 private:
  // A request whose gradient is on its way.
  class ArrivingRequest : public UcxIncoming {
   public:
    ArrivingRequest(Client* client, size_t bytes) : client_(client), bytes_(bytes) {}

    RequestFrame* frame() { return &frame_; }
    void TakeBuffer() {
      if (bytes_ == 0) return;
      std::shared_ptr<uint8_t> memory = client_->listener_->buffers_.Take(bytes_);
      buffer_ = memory.get();
      frame_.request.gradient = Payload::Exclusive(std::move(memory), bytes_);
    }
    void* buffer() override { return buffer_; }
    void Done(absl::Status received) override {
      if (!received.ok()) {
        client_->SendError(frame_.request_id, ErrorReply(std::move(received)));
        return client_->Release(bytes_);
      }
      // It is taken before it is answered, and the client lives until then.
      client_->Exchange(std::move(frame_),
                        [client = client_, bytes = bytes_] { client->Release(bytes); });
    }

   private:
    Client* const client_;
    RequestFrame frame_;
    const size_t bytes_;
    uint8_t* buffer_ = nullptr;
  };

  // A request's payload is the shards' now, or nobody's. On any thread.
  void Release(size_t payload_bytes) {
    OnThread([this, payload_bytes] {
      released_.push_back(payload_bytes);
      GrantReleased();
    });
  }

  // A client that does not take its replies is granted no more requests.
  void GrantReleased() {
    if (released_.empty() || connection_ == nullptr || !MayTakeRequests()) return;
    for (const size_t payload_bytes : released_) connection_->Grant(payload_bytes);
    released_.clear();
  }

  // On any thread.
  void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes,
                 absl::AnyInvocable<void()> received) override {
    if (IsOnThread()) {
      return SendOnThread(request_id, std::move(reply), bytes, std::move(received));
    }
    OnThread([this, request_id, reply = std::move(reply), bytes,
              received = std::move(received)]() mutable {
      SendOnThread(request_id, std::move(reply), bytes, std::move(received));
    });
  }

  bool IsOnThread() const { return std::this_thread::get_id() == ucx_thread_id_; }

  // Runs `task` on the UCX thread, at once when this is it. On others not once the client has
  // ended, as that thread may have, too.
  template <typename Task>
  void OnThread(Task task) {
    if (IsOnThread()) return task();
    MutexLock lock(&mu_);
    if (is_ended_) return;
    thread_->RunLater([self = shared_from_this(), task = std::move(task)]() mutable { task(); });
  }

  void SendOnThread(uint64_t request_id, ExchangeReply&& reply, uint64_t bytes,
                    absl::AnyInvocable<void()> received) {
    if (connection_ == nullptr) return;
    EncodeReplyHeader(request_id, reply, &header_);
    // The connection is this client's own: it never outlives it.
    connection_->Send(header_, std::move(reply.values),
                      [this, bytes, received = std::move(received)]() mutable {
                        Sent(bytes);
                        received();
                        GrantReleased();
                      });
  }

  UcxListener* const listener_;
  UcxThread* const thread_;
  const std::thread::id ucx_thread_id_;
  // Of the thread alone:
  std::unique_ptr<UcxConnection> connection_;  // null once it has ended
  std::vector<size_t> released_;               // payloads whose bytes are not granted again yet
  std::string header_;                         // of the latest reply
  Mutex mu_;
  bool is_ended_ ABSL_GUARDED_BY(mu_) = false;
};

absl::StatusOr<std::unique_ptr<UcxListener>> UcxListener::Start(const std::string& listen,
                                                                ParameterEndpoint* endpoint,
                                                                UcxThread* thread,
                                                                uint64_t max_inflight_bytes,
                                                                const ReplyOrder& order) {
  std::unique_ptr<UcxListener> listener(
      new UcxListener(endpoint, thread, max_inflight_bytes, order));
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
    for (auto& [raw, client] : clients_) client->End();
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
