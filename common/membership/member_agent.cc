#include "common/membership/member_agent.h"

#include <glog/logging.h>

#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/printable_text.h"
#include "common/membership/coordinator_endpoint.h"

namespace capstan {
namespace {

void Report(v1::ReportFailureRequest request, CoordinatorEndpoint& coordinator,
            const absl::Status& status, Clock& clock) {
  if (absl::IsAborted(status)) return;
  request.set_reason(CutText(status.message()));
  const auto reply = AwaitReply(coordinator, std::move(request), clock);
  if (!reply.ok()) LOG(WARNING) << "could not tell the coordinator: " << reply.status();
}

// Least time between heartbeats, even if the coordinator does not park them.
constexpr absl::Duration kLeastInterval = absl::Milliseconds(10);

bool IsFinal(const v1::JobView& view) {
  return view.phase() == v1::DONE || view.phase() == v1::FAILED;
}

}  // namespace

void ReportFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role, uint32_t id,
                   Incarnation incarnation, const absl::Status& status, Clock& clock,
                   bool came_after_end, uint32_t part) {
  v1::ReportFailureRequest request;
  request.set_role(role);
  request.set_id(id);
  request.set_incarnation(incarnation.value());
  request.set_came_after_end(came_after_end);
  request.set_part(part);
  Report(std::move(request), coordinator, status, clock);
}

void ReportEarlyFailure(CoordinatorEndpoint& coordinator, v1::HeartbeatRequest::Role role,
                        Incarnation incarnation, const absl::Status& status, Clock& clock) {
  v1::ReportFailureRequest request;
  request.set_role(role);
  request.set_incarnation(incarnation.value());
  request.set_before_registering(true);
  Report(std::move(request), coordinator, status, clock);
}

// Replies and timers only note work. The first thread becomes busy: it does one piece of work after
// the other, without the lock. Meanwhile other threads leave their work to it.
class MemberAgent::State : public std::enable_shared_from_this<State> {
 public:
  State(Options options, CoordinatorEndpoint& coordinator, Clock& clock)
      : options_(std::move(options)), coordinator_(coordinator), clock_(clock) {}

  void WantHeartbeat();
  void Stop();

 private:
  using Work = absl::AnyInvocable<void()>;

  void OnReply(absl::Time sent_at, absl::StatusOr<v1::JobView> view);
  // Does all noted work, unless another thread is busy.
  void DoWork();
  // Null, and no longer busy, without work.
  Work NextWork();
  void ActOn(const v1::JobView& view);
  void SendHeartbeat(uint64_t view_version, uint64_t received_version);
  void OnTimer();

  Options options_;  // The callbacks belong to the busy thread.
  CoordinatorEndpoint& coordinator_;
  Clock& clock_;

  Mutex mu_;
  CondVar idle_;
  bool is_stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool is_busy_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id busy_thread_ ABSL_GUARDED_BY(mu_);
  Clock::TimerId timer_ ABSL_GUARDED_BY(mu_) = 0;  // 0: none.
  // The noted work, in this order.
  std::deque<v1::JobView> views_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> lost_ ABSL_GUARDED_BY(mu_);
  bool wants_heartbeat_ ABSL_GUARDED_BY(mu_) = false;

  int num_open_heartbeats_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t received_version_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t acted_version_ ABSL_GUARDED_BY(mu_) = 0;
};

void MemberAgent::State::WantHeartbeat() {
  {
    MutexLock lock(&mu_);
    wants_heartbeat_ = true;
  }
  DoWork();
}

void MemberAgent::State::Stop() {
  Clock::TimerId timer;
  {
    MutexLock lock(&mu_);
    is_stopped_ = true;
    timer = std::exchange(timer_, 0);
    while (is_busy_ && busy_thread_ != std::this_thread::get_id()) {
      clock_.WaitUntil(mu_, idle_, absl::InfiniteFuture());
    }
  }
  if (timer != 0) clock_.Cancel(timer);
}

void MemberAgent::State::OnReply(absl::Time sent_at, absl::StatusOr<v1::JobView> view) {
  {
    MutexLock lock(&mu_);
    --num_open_heartbeats_;
    if (is_stopped_) return;
    bool may_send_now = clock_.Now() - sent_at >= kLeastInterval;
    if (!view.ok()) {
      lost_ = view.status();
    } else if (view->version() > received_version_) {
      received_version_ = view->version();
      views_.push_back(*std::move(view));
      may_send_now = true;
    }
    if (num_open_heartbeats_ == 0) {
      if (may_send_now) {
        wants_heartbeat_ = true;
      } else if (timer_ == 0) {
        timer_ = clock_.RunAt(sent_at + kLeastInterval,
                              [self = shared_from_this()] { self->OnTimer(); });
      }
    }
  }
  DoWork();
}

void MemberAgent::State::OnTimer() {
  {
    MutexLock lock(&mu_);
    timer_ = 0;
    if (num_open_heartbeats_ == 0) wants_heartbeat_ = true;
  }
  DoWork();
}

void MemberAgent::State::DoWork() {
  const auto self = shared_from_this();  // A callback may destroy the agent.
  {
    MutexLock lock(&mu_);
    if (is_busy_) return;
    is_busy_ = true;
    busy_thread_ = std::this_thread::get_id();
  }
  while (Work work = NextWork()) work();
}

MemberAgent::State::Work MemberAgent::State::NextWork() {
  MutexLock lock(&mu_);
  if (!is_stopped_ && !views_.empty()) {
    v1::JobView view = std::move(views_.front());
    views_.pop_front();
    return [this, view = std::move(view)] { ActOn(view); };
  }
  if (!is_stopped_ && lost_.has_value()) {
    is_stopped_ = true;
    return [this, status = *lost_] { options_.on_lost(status); };
  }
  if (!is_stopped_ && wants_heartbeat_) {
    wants_heartbeat_ = false;
    ++num_open_heartbeats_;
    return [this, acted = acted_version_, received = received_version_] {
      SendHeartbeat(acted, received);
    };
  }
  is_busy_ = false;
  idle_.NotifyAll();
  return nullptr;
}

void MemberAgent::State::ActOn(const v1::JobView& view) {
  options_.on_view(view);
  MutexLock lock(&mu_);
  acted_version_ = view.version();
  if (IsFinal(view)) is_stopped_ = true;
}

void MemberAgent::State::SendHeartbeat(uint64_t view_version, uint64_t received_version) {
  if (options_.acted_on) view_version = options_.acted_on();
  v1::HeartbeatRequest request;
  request.set_role(options_.role);
  request.set_id(options_.id);
  request.set_incarnation(options_.incarnation.value());
  request.set_part(options_.part);
  request.set_view_version(view_version);
  request.set_received_version(received_version);
  if (options_.report) options_.report(request);
  // Read last: a worker that the report calls leaving has done its last step by now.
  if (options_.progress) *request.mutable_progress() = options_.progress();
  CallCoordinator(coordinator_, std::move(request),
                  [self = shared_from_this(),
                   sent_at = clock_.Now()](const absl::StatusOr<v1::HeartbeatReply>& reply) {
                    self->OnReply(sent_at, reply.ok() ? ViewOf(*reply) : reply.status());
                  });
}

MemberAgent::MemberAgent(Options options, CoordinatorEndpoint& coordinator, Clock& clock)
    : state_(std::make_shared<State>(std::move(options), coordinator, clock)) {}

MemberAgent::~MemberAgent() { Stop(); }

void MemberAgent::Start() { state_->WantHeartbeat(); }

void MemberAgent::ReportNow() { state_->WantHeartbeat(); }

std::function<void()> MemberAgent::Reporter() const {
  return [state = state_] { state->WantHeartbeat(); };
}

void MemberAgent::Stop() { state_->Stop(); }

}  // namespace capstan
