#include "tests/cuda_emulator/machine.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "glog/logging.h"
#include "tests/cuda_emulator/sanitizers.h"

namespace capstan {
namespace emulator {
namespace {

// As cudaMalloc promises.
constexpr size_t kAlignment = 256;

// Counts one down; true when it was its turn.
bool IsDue(std::atomic<int>& countdown) {
  int left = countdown.load(std::memory_order_relaxed);
  while (left >= 0) {
    if (countdown.compare_exchange_weak(left, left - 1, std::memory_order_relaxed))
      return left == 0;
  }
  return false;
}

}  // namespace

Machine& Machine::Get() {
  // Never destroyed: streams and buffers of a program may end after it.
  static Machine* const machine = new Machine;
  return *machine;
}

Machine::Machine() = default;

void Machine::Set(const MachineOptions& options) {
  QuietLock lock(&mu_);
  CHECK(allocations_.empty()) << allocations_.size() << " pieces of memory are still allocated";
  CHECK(streams_.empty()) << streams_.size() << " streams are still there";
  CHECK(events_.empty()) << events_.size() << " events are still there";
  CHECK(options.gpu_count >= 0 && options.gpu_count <= kMaxGpus) << options.gpu_count << " GPUs";
  options_ = options;
  last_kernel_fault_.clear();
  for (std::atomic<int>& fault : faults_) fault = cudaSuccess;
  launches_until_failure_ = -1;
  copies_until_failure_ = -1;
}

MachineOptions Machine::options() {
  QuietLock lock(&mu_);
  return options_;
}

size_t Machine::AllocatedBytes(int gpu) {
  QuietLock lock(&mu_);
  size_t bytes = 0;
  for (const auto& [start, allocation] : allocations_) {
    if (allocation.gpu == gpu) bytes += allocation.bytes;
  }
  return bytes;
}

void* Machine::Allocate(int gpu, size_t bytes) {
  const size_t taken = AllocatedBytes(gpu);
  void* data = nullptr;
  {
    QuietLock lock(&mu_);
    const size_t limit = gpu == kHost ? options_.pinned_memory_bytes : options_.gpu_memory_bytes;
    if (taken > limit || bytes > limit - taken) return nullptr;
    if (posix_memalign(&data, kAlignment, bytes) != 0) return nullptr;
    allocations_[reinterpret_cast<uintptr_t>(data)] = {bytes, gpu};
  }
  std::memset(data, 0xff, bytes);
  return data;
}

bool Machine::Free(bool is_host, void* pointer) {
  int gpu;
  {
    QuietLock lock(&mu_);
    const auto found = allocations_.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == allocations_.end() || (found->second.gpu == kHost) != is_host) return false;
    gpu = found->second.gpu;
    allocations_.erase(found);
  }
  WaitForStreams(gpu);
  std::free(pointer);
  return true;
}

void Machine::WaitForStreams(int gpu) {
  std::vector<std::shared_ptr<Moment>> moments;
  {
    QuietLock lock(&mu_);
    for (CUstream_st* stream : streams_) {
      if (gpu == kHost || stream->gpu == gpu) moments.push_back(stream->queue.PushMoment());
    }
  }
  for (const auto& moment : moments) moment->Wait();
}

const Machine::Allocation* Machine::FindLocked(const void* data, uintptr_t* start) {
  auto next = allocations_.upper_bound(reinterpret_cast<uintptr_t>(data));
  if (next == allocations_.begin()) return nullptr;
  const auto found = std::prev(next);
  *start = found->first;
  return &found->second;
}

bool Machine::IsOnGpu(const void* data, size_t bytes, int gpu) {
  QuietLock lock(&mu_);
  uintptr_t start = 0;
  const Allocation* const allocation = FindLocked(data, &start);
  if (allocation == nullptr || allocation->gpu != gpu) return false;
  const size_t offset = reinterpret_cast<uintptr_t>(data) - start;
  return offset <= allocation->bytes && bytes <= allocation->bytes - offset;
}

bool Machine::TouchesGpu(const void* data, size_t bytes) {
  if (bytes == 0) return false;
  QuietLock lock(&mu_);
  uintptr_t start = 0;
  // The last allocation before the end of the bytes.
  const Allocation* const allocation =
      FindLocked(static_cast<const char*>(data) + (bytes - 1), &start);
  return allocation != nullptr && allocation->gpu != kHost &&
         reinterpret_cast<uintptr_t>(data) < start + allocation->bytes;
}

CUstream_st* Machine::AddStream(int gpu) {
  auto* const stream = new CUstream_st(clock_, gpu);
  QuietLock lock(&mu_);
  streams_.insert(stream);
  return stream;
}

void Machine::RemoveStream(CUstream_st* stream) {
  {
    QuietLock lock(&mu_);
    streams_.erase(stream);
  }
  delete stream;
}

CUevent_st* Machine::AddEvent(int gpu, bool has_timing) {
  auto* const event = new CUevent_st{gpu, has_timing, {}, {}};
  QuietLock lock(&mu_);
  events_.insert(event);
  return event;
}

void Machine::RemoveEvent(CUevent_st* event) {
  {
    QuietLock lock(&mu_);
    events_.erase(event);
  }
  const UnseenByThreadSanitizer unseen;  // A stream may still be on its way to the moment.
  delete event;
}

bool Machine::IsStream(CUstream_st* stream) {
  QuietLock lock(&mu_);
  return streams_.count(stream) != 0;
}

bool Machine::IsEvent(CUevent_st* event) {
  QuietLock lock(&mu_);
  return events_.count(event) != 0;
}

cudaError_t Machine::fault(int gpu) const {
  return static_cast<cudaError_t>(faults_[gpu].load(std::memory_order_relaxed));
}

void Machine::SetFault(int gpu, cudaError_t error) {
  faults_[gpu].store(error, std::memory_order_relaxed);
}

void Machine::SetKernelFault(int gpu, const std::string& text, cudaError_t error) {
  LOG(ERROR) << "emulated kernel: " << text;
  {
    QuietLock lock(&mu_);
    last_kernel_fault_ = text;
  }
  SetFault(gpu, error);
}

std::string Machine::last_kernel_fault() {
  QuietLock lock(&mu_);
  return last_kernel_fault_;
}

void Machine::PushLaunch(CUstream_st& stream, StreamQueue::Operation operation) {
  launch_count_.fetch_add(1, std::memory_order_relaxed);
  Push(stream, IsDue(launches_until_failure_), std::move(operation));
}

void Machine::PushCopy(CUstream_st& stream, StreamQueue::Operation operation) {
  Push(stream, IsDue(copies_until_failure_), std::move(operation));
}

void Machine::Push(CUstream_st& stream, bool fails, StreamQueue::Operation operation) {
  stream.queue.Push(
      [this, gpu = stream.gpu, fails, operation = std::move(operation)](BlockRunner& blocks) {
        if (fails && fault(gpu) == cudaSuccess) SetFault(gpu, cudaErrorIllegalAddress);
        if (fault(gpu) == cudaSuccess) operation(blocks);
      });
}

void Machine::FailLaunch(int skip) { launches_until_failure_ = skip; }
void Machine::FailCopy(int skip) { copies_until_failure_ = skip; }

void SetMachine(const MachineOptions& options) { Machine::Get().Set(options); }
void FailLaunch(int skip) { Machine::Get().FailLaunch(skip); }
void FailCopy(int skip) { Machine::Get().FailCopy(skip); }
size_t AllocatedBytes(int number) { return Machine::Get().AllocatedBytes(number); }
int64_t LaunchCount() { return Machine::Get().launch_count(); }
std::string LastKernelFault() { return Machine::Get().last_kernel_fault(); }

}  // namespace emulator
}  // namespace capstan
