#include "tests/cuda_emulator/block_runner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

__thread uint3 threadIdx;
__thread uint3 blockIdx;
__thread uint3 blockDim;
__thread uint3 gridDim;

namespace capstan {
namespace emulator {
namespace {

thread_local BlockRunner* current_runner = nullptr;

constexpr uint64_t kNoBits = ~uint64_t{0};  // a NaN

uint3 Index(const dim3& size, int64_t number) {
  return {static_cast<unsigned>(number % size.x), static_cast<unsigned>(number / size.x % size.y),
          static_cast<unsigned>(number / size.x / size.y)};
}

int64_t Volume(const dim3& size) { return int64_t{size.x} * size.y * size.z; }

}  // namespace

void CheckLaunchBounds(int max_threads, int /*min_blocks*/) {
  BlockRunner::Current().CheckLaunchBounds(max_threads);
}

void SyncThreads() { BlockRunner::Current().SyncThreads(); }

uint64_t ShuffleBits(Shuffle shuffle, unsigned mask, uint64_t own_bits, unsigned operand) {
  return BlockRunner::Current().ShuffleBits(shuffle, mask, own_bits, operand);
}

BlockRunner& BlockRunner::Current() {
  CHECK(current_runner != nullptr) << "device code was called outside of a kernel";
  return *current_runner;
}

std::string BlockRunner::Run(dim3 grid, dim3 block, const std::function<void()>& thread) {
  current_runner = this;
  body_ = &thread;
  block_size_ = block;
  thread_count_ = static_cast<int>(Volume(block));
  if (main_ == nullptr) main_ = std::make_unique<Fiber>();
  gridDim = {grid.x, grid.y, grid.z};
  blockDim = {block.x, block.y, block.z};
  std::string fault;
  for (int64_t number = 0; number < Volume(grid) && fault.empty(); ++number) {
    blockIdx = Index(grid, number);
    fault = RunBlock(number);
  }
  current_runner = nullptr;
  return fault;
}

std::string BlockRunner::RunBlock(int64_t block_number) {
  is_backward_ = block_number % 2 == 1;
  BeginBlock();
  Fiber::Switch(*main_, Next());
  if (live_ == 0) return "";
  std::string stuck = fault_.empty() ? DescribeStuck(block_number)
                                     : absl::StrCat("block ", block_number, ": ", fault_);
  // Their threads never end: the stacks go as they are.
  ready_.clear();
  at_barrier_.clear();
  idle_.clear();
  runners_.clear();
  return stuck;
}

void BlockRunner::BeginBlock() {
  started_ = 0;
  live_ = thread_count_;
  fault_.clear();
  warps_.resize((thread_count_ + kLanes - 1) / kLanes);
  for (size_t i = 0; i < warps_.size(); ++i) {
    warps_[i].live = std::min(kLanes, thread_count_ - static_cast<int>(i) * kLanes);
    warps_[i].waiting.clear();
  }
}

void BlockRunner::SetThreadIndex(int thread) const { threadIdx = Index(block_size_, thread); }

Fiber& BlockRunner::Next() {
  if (!fault_.empty()) return *main_;
  if (!ready_.empty()) {
    running_ = ready_.front();
    ready_.pop_front();
    SetThreadIndex(running_->thread);
    return *running_->fiber;
  }
  if (started_ == thread_count_) return *main_;
  if (idle_.empty()) {
    runners_.push_back(std::make_unique<Runner>());
    Runner* const runner = runners_.back().get();
    runner->fiber = std::make_unique<Fiber>([this, runner] { RunThreads(*runner); });
    idle_.push_back(runner);
  }
  running_ = idle_.back();
  idle_.pop_back();
  return *running_->fiber;
}

void BlockRunner::RunThreads(Runner& runner) {
  for (;;) {
    while (started_ < thread_count_ && ready_.empty() && fault_.empty()) {
      runner.thread = is_backward_ ? thread_count_ - 1 - started_ : started_;
      ++started_;
      SetThreadIndex(runner.thread);
      (*body_)();
      EndThread(runner.thread);
    }
    idle_.push_back(&runner);
    Fiber& next = Next();
    if (&next != runner.fiber.get()) Fiber::Switch(*runner.fiber, next);
  }
}

void BlockRunner::EndThread(int thread) {
  --live_;
  Warp& warp = warps_[thread / kLanes];
  --warp.live;
  ReleaseBarrierIfComplete();
  FinishShuffleIfComplete(warp);
}

void BlockRunner::Pause(Runner& runner) {
  Fiber& next = Next();
  if (&next != runner.fiber.get()) Fiber::Switch(*runner.fiber, next);
}

void BlockRunner::CheckLaunchBounds(int max_threads) {
  if (thread_count_ <= max_threads) return;
  fault_ = absl::StrCat("a block has ", thread_count_, " threads; the kernel's launch bounds are ",
                        max_threads);
  Pause(*running_);
}

void BlockRunner::SyncThreads() {
  Runner& runner = *running_;
  at_barrier_.push_back(&runner);
  ReleaseBarrierIfComplete();
  Pause(runner);
}

void BlockRunner::ReleaseBarrierIfComplete() {
  if (live_ == 0 || at_barrier_.size() < static_cast<size_t>(live_)) return;
  ready_.insert(ready_.end(), at_barrier_.begin(), at_barrier_.end());
  at_barrier_.clear();
}

uint64_t BlockRunner::ShuffleBits(Shuffle shuffle, unsigned mask, uint64_t own_bits,
                                  unsigned operand) {
  Runner& runner = *running_;
  Warp& warp = warps_[runner.thread / kLanes];
  const int lane = runner.thread % kLanes;
  if (mask != ~0u) {
    fault_ = absl::StrCat("a shuffle has the mask ", absl::Hex(mask), "; expected all lanes");
  } else if (!warp.waiting.empty() && warp.shuffle != shuffle) {
    fault_ = absl::StrCat("the lanes of warp ", runner.thread / kLanes,
                          " are in different kinds of shuffle");
  }
  if (warp.waiting.empty()) std::fill(std::begin(warp.has_bits), std::end(warp.has_bits), false);
  warp.shuffle = shuffle;
  warp.has_bits[lane] = true;
  warp.bits[lane] = own_bits;
  warp.operands[lane] = operand;
  warp.waiting.push_back(&runner);
  FinishShuffleIfComplete(warp);
  Pause(runner);
  return warp.results[lane];
}

void BlockRunner::FinishShuffleIfComplete(Warp& warp) {
  if (warp.waiting.empty() || warp.waiting.size() < static_cast<size_t>(warp.live)) return;
  for (Runner* runner : warp.waiting) {
    const unsigned lane = static_cast<unsigned>(runner->thread % kLanes);
    const unsigned operand = warp.operands[lane];
    const unsigned source = warp.shuffle == Shuffle::kXor ? lane ^ operand : lane + operand;
    if (source >= kLanes) {
      warp.results[lane] = warp.bits[lane];
    } else {
      warp.results[lane] = warp.has_bits[source] ? warp.bits[source] : kNoBits;
    }
    ready_.push_back(runner);
  }
  warp.waiting.clear();
}

std::string BlockRunner::DescribeStuck(int64_t block_number) const {
  std::string text = absl::StrCat("block ", block_number, ": ", at_barrier_.size(), " of ", live_,
                                  " threads wait at a barrier");
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (warps_[i].waiting.empty()) continue;
    absl::StrAppend(&text, ", ", warps_[i].waiting.size(), " of ", warps_[i].live, " of warp ", i,
                    " in a shuffle");
  }
  return text + "; none can go on";
}

}  // namespace emulator
}  // namespace capstan
