#include "tests/process/shared_barrier.h"

#include <glog/logging.h>
#include <sys/mman.h>

namespace capstan {
namespace {

pthread_barrier_t* SharedMemory() {
  void* const memory = mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  PCHECK(memory != MAP_FAILED);
  return static_cast<pthread_barrier_t*>(memory);
}

}  // namespace

SharedBarrier::SharedBarrier(int num_processes) : barrier_(SharedMemory()) {
  pthread_barrierattr_t attributes;
  CHECK_EQ(pthread_barrierattr_init(&attributes), 0);
  CHECK_EQ(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
  CHECK_EQ(pthread_barrier_init(barrier_, &attributes, static_cast<unsigned>(num_processes)), 0);
  pthread_barrierattr_destroy(&attributes);
}

// The barrier is not destroyed: a process killed in its wait would block the destruction forever.
SharedBarrier::~SharedBarrier() { munmap(barrier_, sizeof(pthread_barrier_t)); }

void SharedBarrier::Wait() { pthread_barrier_wait(barrier_); }

}  // namespace capstan
