#ifndef KERNELS_CUDA_EMULATOR_BLOCK_RUNNER_H_
#define KERNELS_CUDA_EMULATOR_BLOCK_RUNNER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/emulator/device_code.h"
#include "kernels/cuda/emulator/fiber.h"

namespace capstan {
namespace emulator {

// Runs the blocks of a kernel one after the other, and a block's threads in turns: each runs until
// it ends or must wait for others at a barrier or in a shuffle. Every other block starts its
// threads from the last one, so that a missing barrier shows in the result. Used by the thread that
// made it.
class BlockRunner {
 public:
  BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Runs `thread` once for each thread of each block. Returns why the kernel cannot go on: threads
  // that wait for what will never be, where a GPU would hang or go wrong. Empty when it has ended.
  std::string Run(dim3 grid, dim3 block, const std::function<void()>& thread);

  // See device_code.h. Called by `thread`.
  void SyncThreads();
  uint64_t ShuffleBits(Shuffle shuffle, unsigned mask, uint64_t own_bits, unsigned operand);

  // Whose Run the calling thread is in; dies when it is in none.
  static BlockRunner& Current();

 private:
  static constexpr int kLanes = warpSize;

  // A fiber runs one thread of the block after the other; it has `thread` until that has ended.
  struct Runner {
    std::unique_ptr<Fiber> fiber;
    int thread = 0;
  };
  struct Warp {
    int live = 0;
    Shuffle shuffle = Shuffle::kXor;  // of the lanes that wait
    std::vector<Runner*> waiting;
    bool has_bits[kLanes] = {};
    uint64_t bits[kLanes] = {};
    unsigned operands[kLanes] = {};
    uint64_t results[kLanes] = {};
  };

  std::string RunBlock(int64_t block_number);
  void RunThreads(Runner& runner);  // a fiber's body
  void BeginBlock();
  void EndThread(int thread);
  // Lets others run until `runner` is in `ready_` and has its turn.
  void Pause(Runner& runner);
  // The fiber whose turn it is; `main_` when none can go on.
  Fiber& Next();
  void ReleaseBarrierIfComplete();
  void FinishShuffleIfComplete(Warp& warp);
  void SetThreadIndex(int thread) const;
  std::string DescribeStuck(int64_t block_number) const;

  const std::function<void()>* body_ = nullptr;
  dim3 block_size_;
  int thread_count_ = 0;
  bool is_backward_ = false;

  int started_ = 0;
  int live_ = 0;
  std::string fault_;
  Runner* running_ = nullptr;
  std::deque<Runner*> ready_;
  std::vector<Runner*> at_barrier_;
  std::vector<Warp> warps_;

  std::unique_ptr<Fiber> main_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<Runner*> idle_;
};

}  // namespace emulator
}  // namespace capstan

#endif  // KERNELS_CUDA_EMULATOR_BLOCK_RUNNER_H_
