#include "common/transport/ucx/ucx_thread.h"

#include <glog/logging.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// Vain looks before the thread sleeps. Its peer would need more time to wake it. With 200 looks,
// exchanges of 64 KiB have 7 % less throughput, and exchanges of 1 KiB, one at a time, a fifth
// less. With more than 1024, threads on shared cores slow each other down.
constexpr int kLooksBeforeSleep = 1024;
// Longest time of vain looks before the thread sleeps. Over TCP each look is a system call.
constexpr absl::Duration kLongestLooking = absl::Microseconds(100);
// After this number of vain looks in a row the thread reads the clock and yields the core. On 2
// cores with 3 polling processes a BSP step takes 66 ms instead of 76 ms.
constexpr int kLooksInARow = 64;
// Pause instructions after a vain look. Each look takes the cache line from the peer's core, which
// writes to it. With pauses, exchanges of 1 KiB have 8 % more throughput with 64 in flight, and 7 %
// more one at a time.
constexpr int kPausesAfterLook = 8;

// Without tcp: it opens a port to everybody, and UCX 1.13 ends the process if a foreign message
// arrives there.
constexpr char kTransports[] = "sm,self,ib";

constexpr absl::Duration kLongestBusy = absl::Seconds(10);
constexpr int64_t kLooksWhileBusy = 10'000;  // take a second or more

constexpr absl::Duration kLongestSettling = absl::Seconds(1);

// UCX would write its log to the standard output, into the program's own text.
ucs_log_func_rc_t LogToGlog(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                            ucs_log_level_t level, const ucs_log_component_config_t* /*config*/,
                            const char* format, va_list arguments) {
  char message[512];
  std::vsnprintf(message, sizeof(message), format, arguments);
  // The users of a broken connection get its error as a status.
  if (level <= UCS_LOG_LEVEL_FATAL) {
    LOG(ERROR) << "UCX: " << message;
  } else {
    VLOG(1) << "UCX: " << message;
  }
  return UCS_LOG_FUNC_RC_STOP;
}

void Pause() {
  for (int i = 0; i < kPausesAfterLook; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

// What UCX 1.13 takes of kSharedMemory for each process, before any connection.
constexpr uint64_t kSharedMemoryBytes = 4208 << 10;
constexpr char kSharedMemory[] = "/dev/shm";

// UCX does not say that shared memory is what it lacks.
absl::Status WithMissingMemory(const absl::Status& status) {
  struct statvfs memory = {};
  if (status.ok() || statvfs(kSharedMemory, &memory) != 0) return status;
  const uint64_t left = uint64_t{memory.f_bavail} * memory.f_frsize;
  if (left >= kSharedMemoryBytes) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), ". UCX takes ", kSharedMemoryBytes >> 10, " KiB of ",
                   kSharedMemory, " for each server and worker, but ", left >> 10,
                   " KiB are left: make it larger (docker run --shm-size=256m), or use "
                   "--transport=grpc"));
}

void InstallLogHandler() {
  static const bool is_installed = [] {
    ucs_log_push_handler(&LogToGlog);
    return true;
  }();
  (void)is_installed;
}

}  // namespace

absl::Status UcxStatus(ucs_status_t status, const char* call) {
  if (status == UCS_OK) return absl::OkStatus();
  const std::string message = absl::StrCat(call, ": ", ucs_status_string(status));
  return status == UCS_ERR_NO_MEMORY ? absl::ResourceExhaustedError(message)
                                     : absl::UnavailableError(message);
}

UcxThread::UcxThread(const Options& options)
    : options_(options), stall_(kLongestBusy, kLooksWhileBusy) {
  if (options_.transports.empty()) options_.transports = kTransports;
}

absl::StatusOr<std::unique_ptr<UcxThread>> UcxThread::Start(const Options& options) {
  InstallLogHandler();
  std::unique_ptr<UcxThread> thread(new UcxThread(options));
  RETURN_IF_ERROR(thread->Open());
  thread->thread_ = std::thread([raw = thread.get()] { raw->Loop(); });
  return thread;
}

absl::Status UcxThread::Open() {
  ucp_config_t* config = nullptr;
  RETURN_IF_ERROR(UcxStatus(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read"));
  const absl::Status modified = UcxStatus(
      ucp_config_modify(config, "TLS", options_.transports.c_str()), "ucp_config_modify(TLS)");
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  if (!options_.polls) params.features |= UCP_FEATURE_WAKEUP;
  const ucs_status_t initialized = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  RETURN_IF_ERROR(modified);
  RETURN_IF_ERROR(UcxStatus(initialized, "ucp_init"));
  ucp_worker_params_t worker = {};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // Other threads create and destroy it.
  RETURN_IF_ERROR(WithMissingMemory(
      UcxStatus(ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create")));
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  RETURN_IF_ERROR(UcxStatus(ucp_worker_get_address(worker_, &address, &address_bytes),
                            "ucp_worker_get_address"));
  worker_address_.assign(reinterpret_cast<const char*>(address), address_bytes);
  ucp_worker_release_address(worker_, address);
  if (options_.polls) return absl::OkStatus();
  RETURN_IF_ERROR(UcxStatus(ucp_worker_get_efd(worker_, &ucx_events_), "ucp_worker_get_efd"));
  task_events_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (task_events_ < 0) return absl::ResourceExhaustedError("no file descriptor is left: eventfd");
  return absl::OkStatus();
}

UcxThread::~UcxThread() {
  if (thread_.joinable()) {
    RunLater([this] { is_stopping_ = true; });
    thread_.join();
  }
  // UCX 1.13 ends the process if it is destroyed while it fetches a payload. In this case it stays
  // until the end of the process.
  if (Settle()) {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucp_cleanup(context_);
  }
  if (task_events_ >= 0) close(task_events_);
}

bool UcxThread::Settle() {
  const absl::Time deadline = options_.clock->Now() + kLongestSettling;
  bool is_settled = worker_ == nullptr;
  while (!is_settled && options_.clock->Now() < deadline) {
    // Each call makes progress while a fetch is open.
    is_settled = ucp_worker_progress(worker_) == 0;
  }
  return is_settled;
}

void UcxThread::Run(Task task) {
  if (is_current()) return task();
  RunLater(std::move(task));
}

void UcxThread::RunLater(Task task) {
  MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
  has_tasks_.store(true, std::memory_order_release);
  if (!is_sleeping_) return;
  is_sleeping_ = false;
  const uint64_t one = 1;
  // Fails only if a wake-up is pending already.
  (void)!write(task_events_, &one, sizeof(one));
}

void UcxThread::RunAndWait(Task task) {
  bool has_run = false;  // guarded by mu_
  RunLater([this, &task, &has_run] {
    task();
    MutexLock lock(&mu_);
    has_run = true;
    task_has_run_.NotifyAll();
  });
  MutexLock lock(&mu_);
  while (!has_run) options_.clock->WaitUntil(mu_, task_has_run_, absl::InfiniteFuture());
}

bool UcxThread::RunTasks() {
  if (!has_tasks_.load(std::memory_order_acquire)) return false;
  std::vector<Task> tasks;
  {
    MutexLock lock(&mu_);
    tasks.swap(tasks_);
    has_tasks_.store(false, std::memory_order_relaxed);
  }
  for (Task& task : tasks) task();
  return true;
}

void UcxThread::Loop() {
  int looks = 0;
  while (!is_stopping_) {
    const bool has_run = RunTasks();
    const bool has_progressed = ucp_worker_progress(worker_) != 0;
    Flush();
    ++round_;
    if (has_progressed) stall_.NoteProgress();
    looks = has_run || has_progressed ? 0 : looks + 1;
    if (looks > 0) Pause();
    if (looks % kLooksInARow != 0 || looks == 0) continue;
    std::this_thread::yield();
    if (!options_.polls && !HasLookedEnough(looks)) continue;
    if (!options_.polls) Sleep();
    looks = 0;
  }
}

void UcxThread::FlushNoMore(Sender* sender) {
  to_flush_.erase(std::remove(to_flush_.begin(), to_flush_.end(), sender), to_flush_.end());
}

void UcxThread::Flush() {
  // A flush may run callbacks, and these may call FlushSoon.
  while (!to_flush_.empty()) {
    Sender* const sender = to_flush_.back();
    to_flush_.pop_back();
    sender->Flush();
  }
}

bool UcxThread::HasLookedEnough(int looks) {
  const absl::Time now = options_.clock->Now();
  if (looks == kLooksInARow) looks_until_ = now + kLongestLooking;
  return looks >= kLooksBeforeSleep || now >= looks_until_;
}

void UcxThread::Sleep() {
  {
    MutexLock lock(&mu_);
    if (!tasks_.empty()) return;
    is_sleeping_ = true;
  }
  // Busy: a message has come since the last progress.
  const ucs_status_t armed = ucp_worker_arm(worker_);
  if (armed == UCS_ERR_BUSY) OnBusy();
  if (armed == UCS_OK) {
    stall_.NoteProgress();
    pollfd events[] = {{ucx_events_, POLLIN, 0}, {task_events_, POLLIN, 0}};
    poll(events, 2, /*timeout=*/-1);
    if ((events[1].revents & POLLIN) != 0) {
      uint64_t count;
      (void)!read(task_events_, &count, sizeof(count));
    }
  }
  MutexLock lock(&mu_);
  is_sleeping_ = false;
}

void UcxThread::OnBusy() {
  if (is_blocked_ || !stall_.IsStalled(options_.clock->Now())) return;
  is_blocked_ = true;
  options_.on_blocked(absl::UnavailableError(
      "messages wait in UCX's shared memory that cannot be taken: a process that was killed while "
      "it wrote one blocks the others. Start the job again; over --transport=grpc nothing can be "
      "blocked like that"));
}

}  // namespace capstan
