#ifndef TESTS_CUDA_EMULATOR_BLOCK_RUNNER_H_
#define TESTS_CUDA_EMULATOR_BLOCK_RUNNER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_emulator/device_code.h"
#include "tests/cuda_emulator/fiber.h"

namespace capstan {
namespace emulator {

// Runs the blocks of a kernel one after the other, and a block's threads in turns. A thread runs
// until it ends or must wait at a barrier or in a shuffle. Every other block starts its threads
// from the last one: a missing barrier shows in the result. Used only by its creator's thread.
class BlockRunner {
 public:
  BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Runs `thread` once for each thread of each block. Returns an empty text if all have ended, and
  // else a description of the threads that wait forever. There a GPU would hang or go wrong.
  std::string Run(dim3 grid, dim3 block, const std::function<void()>& thread);

  // See device_code.h. Called by `thread`.
  void CheckLaunchBounds(int max_threads);
  void SyncThreads();
  uint64_t ShuffleBits(Shuffle shuffle, unsigned mask, uint64_t own_bits, unsigned operand);

  // The runner of the calling thread, within Run; dies elsewhere.
  static BlockRunner& Current();

 private:
  static constexpr int kLanes = warpSize;

  // A fiber runs the threads of the block one after the other. `thread` is its present one.
  struct Runner {
    std::unique_ptr<Fiber> fiber;
    int thread = 0;
  };
  struct Warp {
    int live = 0;
    Shuffle shuffle = Shuffle::kXor;  // of the waiting lanes
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
  // The next fiber; `main_` if none can go on.
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

#endif  // TESTS_CUDA_EMULATOR_BLOCK_RUNNER_H_
