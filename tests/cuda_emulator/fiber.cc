#include "tests/cuda_emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "glog/logging.h"

namespace capstan {
namespace emulator {
namespace {

// Kernels keep little on their stack; AddressSanitizer makes it a few times as much.
constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kGuardBytes = 4096;

void* StackProper(void* stack) { return static_cast<char*>(stack) + kGuardBytes; }

}  // namespace

Fiber::Fiber() : tag_(CurrentFiberTag()) {}

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  stack_ = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PCHECK(stack_ != MAP_FAILED);
  PCHECK(mprotect(stack_, kGuardBytes, PROT_NONE) == 0);
  PCHECK(getcontext(&context_) == 0);
  context_.uc_stack.ss_sp = StackProper(stack_);
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  const uint64_t self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&Start), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  tag_ = MakeFiberTag(StackProper(stack_), kStackBytes);
}

Fiber::~Fiber() {
  if (stack_ == nullptr) return;
  DropFiberTag(tag_);
  PCHECK(munmap(stack_, kGuardBytes + kStackBytes) == 0);
}

void Fiber::Start(unsigned high, unsigned low) {
  Fiber* const self =
      reinterpret_cast<Fiber*>(static_cast<uintptr_t>(uint64_t{high} << 32 | uint64_t{low}));
  AfterSwitch(self->tag_);
  self->body_();
  LOG(FATAL) << "a fiber's body returned";
}

void Fiber::Switch(Fiber& from, Fiber& to) {
  BeforeSwitch(from.tag_, to.tag_);
  swapcontext(&from.context_, &to.context_);
  AfterSwitch(from.tag_);
}

}  // namespace emulator
}  // namespace capstan
