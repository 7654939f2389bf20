#include "common/transport/ucx/ucx_listener.h"

#include <glog/logging.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/tensor/slicing.h"
#include "common/transport/bounded_replies.h"
#include "common/transport/ucx/ucx_connection.h"
#include "common/transport/ucx/ucx_protocol.h"
#include "common/wire/exchange_header.h"

namespace capstan {

namespace {

// Longer than a worker waits for the answer to its greeting: the worker reports the error itself.
constexpr absl::Duration kLongestGreeting = absl::Seconds(30);

constexpr char kServerEnds[] = "the server ends";

}  // namespace

// One worker, first invited and then connected. Lives until it is gone and all its exchanges are
// answered.
class UcxListener::Client : public UcxInviter,
                            public UcxConnection::Receiver,
                            public BoundedReplies::Sender {
 public:
  // Runs on the UCX thread.
  Client(UcxListener* listener, std::shared_ptr<UcxTransport::Guest> guest)
      : listener_(listener),
        thread_(listener->thread_),
        guest_(std::move(guest)),
        secret_(guest_->secret()),
        ucx_thread_id_(std::this_thread::get_id()),
        replies_(listener->endpoint_, listener->max_inflight_bytes_, listener->order_, this) {}

  void Invite() {
    thread_->invitations()[secret_] = this;
    late_ = listener_->clock_->RunAfter(kLongestGreeting, [this, weak = weak_from_this()] {
      thread_->RunLater([this, weak] {
        if (const auto self = weak.lock(); self != nullptr) EndIfNotGreeted();
      });
    });
    v1::UcxInvitation invitation;
    invitation.set_worker_address(thread_->worker_address());
    guest_->OnInvitation(invitation);
  }
  // Runs once, when the listener drops this client.
  void End(const absl::Status& status) {
    listener_->clock_->Cancel(late_);
    thread_->invitations().erase(secret_);
    replies_.Close();
    connection_ = nullptr;
    guest_->OnEnd(status);
    MutexLock lock(&mu_);
    is_ended_ = true;
  }

  void OnGreeting(uint32_t version, ucp_ep_h endpoint) override {
    absl::Status status = absl::OkStatus();
    if (version == UcxGreeting::kVersion) {
      auto accepted =
          UcxConnection::Accept(thread_, endpoint, this, listener_->max_inflight_bytes_);
      status = accepted.status();
      if (accepted.ok()) connection_ = *std::move(accepted);
    } else {
      status = absl::UnimplementedError(
          absl::StrCat("the server speaks version ", UcxGreeting::kVersion,
                       " of the protocol over UCX, and the worker version ", version));
    }
    if (!status.ok()) OnBroken(status);
  }

  std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t> header,
                                         size_t payload_bytes) override {
    auto request = std::make_unique<ArrivingRequest>(this, payload_bytes);
    RequestFrame& frame = *request->frame();
    absl::Status status = DecodeHeader(header, payload_bytes, &frame);
    if (status.ok()) status = frame.request.status();
    if (status.ok() && payload_bytes > kMaxSliceBytes) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "expected a payload of at most ", kMaxSliceBytes, " bytes, got ", payload_bytes));
    }
    if (!status.ok()) {
      replies_.SendError(frame.request_id, ErrorReply(status));
      Release(payload_bytes);
      return nullptr;
    }
    request->TakeBuffer();
    return request;
  }

  void OnBroken(const absl::Status& status) override {
    LOG(WARNING) << "the connection of a worker over UCX is closed: " << status;
    const auto self = shared_from_this();  // The listener may have the last reference.
    listener_->clients_.erase(guest_.get());
    End(status);
  }

 private:
  // A request with its gradient still arriving.
  class ArrivingRequest : public UcxIncoming {
   public:
    ArrivingRequest(Client* client, size_t bytes) : client_(client), bytes_(bytes) {}

    RequestFrame* frame() { return &frame_; }
    void TakeBuffer() {
      if (bytes_ == 0) return;
      std::shared_ptr<uint8_t> memory = client_->listener_->buffers_.Take(bytes_);
      buffer_ = memory.get();
      SetPayload(Payload::Exclusive(std::move(memory), bytes_), &frame_);
    }
    void* buffer() override { return buffer_; }
    void Done(absl::Status received) override {
      if (!received.ok()) {
        client_->replies_.SendError(frame_.request_id, ErrorReply(std::move(received)));
        return client_->Release(bytes_);
      }
      // The callback runs before the answer, and the client lives until the answer.
      client_->replies_.Exchange(std::move(frame_),
                                 [client = client_, bytes = bytes_] { client->Release(bytes); });
    }

   private:
    Client* const client_;
    RequestFrame frame_;
    const size_t bytes_;
    uint8_t* buffer_ = nullptr;
  };

  void EndIfNotGreeted() {
    if (!thread_->invitations().contains(secret_)) return;
    OnBroken(absl::DeadlineExceededError(
        absl::StrCat("no greeting has come within ", absl::FormatDuration(kLongestGreeting))));
  }

  // The endpoint has taken a request's payload, or the payload is lost. Runs on any thread.
  void Release(size_t payload_bytes) {
    OnThread([this, payload_bytes] {
      released_.push_back(payload_bytes);
      GrantReleased();
    });
  }

  // While a client does not take its replies, it gets no grants.
  void GrantReleased() {
    if (released_.empty() || connection_ == nullptr || !replies_.MayTakeRequests()) return;
    for (const size_t payload_bytes : released_) connection_->Grant(payload_bytes);
    released_.clear();
  }

  // Runs on any thread.
  void SendReply(uint64_t request_id, ExchangeReply reply, uint64_t bytes,
                 absl::AnyInvocable<void()> delivered) override {
    if (IsOnThread()) {
      return SendOnThread(request_id, std::move(reply), bytes, std::move(delivered));
    }
    OnThread([this, request_id, reply = std::move(reply), bytes,
              delivered = std::move(delivered)]() mutable {
      SendOnThread(request_id, std::move(reply), bytes, std::move(delivered));
    });
  }

  bool IsOnThread() const { return std::this_thread::get_id() == ucx_thread_id_; }

  // Runs `task` on the UCX thread: now if this is the thread, else later. After the client's end
  // other threads' tasks are dropped, because the UCX thread may have ended too.
  template <typename Task>
  void OnThread(Task task) {
    if (IsOnThread()) return task();
    MutexLock lock(&mu_);
    if (is_ended_) return;
    thread_->RunLater([self = shared_from_this(), task = std::move(task)]() mutable { task(); });
  }

  void SendOnThread(uint64_t request_id, ExchangeReply&& reply, uint64_t bytes,
                    absl::AnyInvocable<void()> delivered) {
    if (connection_ == nullptr) return;
    EncodeHeader(request_id, reply, &header_);
    // The client owns the connection and outlives it. Values count as delivered once released.
    connection_->Send(header_, std::move(reply.values),
                      [this, bytes, delivered = std::move(delivered)]() mutable {
                        replies_.Released(bytes);
                        delivered();
                        GrantReleased();
                      });
  }

  UcxListener* const listener_;
  UcxThread* const thread_;
  const std::shared_ptr<UcxTransport::Guest> guest_;
  const std::string secret_;
  const std::thread::id ucx_thread_id_;
  BoundedReplies replies_;
  // Used by the thread alone:
  Clock::TimerId late_ = 0;                    // deadline of the greeting
  std::unique_ptr<UcxConnection> connection_;  // null before the greeting and after the end
  std::vector<size_t> released_;               // sizes of payloads not granted again yet
  std::string header_;                         // of the latest reply
  Mutex mu_;
  bool is_ended_ ABSL_GUARDED_BY(mu_) = false;
};

UcxListener::~UcxListener() {
  EndAll();
  // Waits for earlier calls of End.
  thread_->RunAndWait([] {});
}

void UcxListener::Invite(std::shared_ptr<UcxTransport::Guest> guest) {
  thread_->RunLater([this, guest = std::move(guest)] {
    if (is_ended_) return guest->OnEnd(absl::UnavailableError(kServerEnds));
    const auto client = std::make_shared<Client>(this, guest);
    clients_.emplace(guest.get(), client);
    client->Invite();
  });
}

void UcxListener::End(UcxTransport::Guest* guest) {
  thread_->RunLater([this, guest] {
    const auto found = clients_.find(guest);
    if (found == clients_.end()) return;
    const std::shared_ptr<Client> client = std::move(found->second);
    clients_.erase(found);
    client->End(absl::CancelledError("the worker has gone"));
  });
}

void UcxListener::EndAll() {
  thread_->RunAndWait([this] {
    is_ended_ = true;
    for (auto& [guest, client] : clients_) client->End(absl::UnavailableError(kServerEnds));
    clients_.clear();
  });
}

}  // namespace capstan
