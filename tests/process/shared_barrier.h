#ifndef TESTS_PROCESS_SHARED_BARRIER_H_
#define TESTS_PROCESS_SHARED_BARRIER_H_

#include <pthread.h>

namespace capstan {

// A barrier for forked processes, in shared memory. Must be created before they are forked. The
// creator outlives their waits.
class SharedBarrier {
 public:
  explicit SharedBarrier(int num_processes);
  ~SharedBarrier();
  SharedBarrier(const SharedBarrier&) = delete;
  SharedBarrier& operator=(const SharedBarrier&) = delete;

  // Returns when all processes wait. May be used repeatedly.
  void Wait();

 private:
  pthread_barrier_t* const barrier_;
};

}  // namespace capstan

#endif  // TESTS_PROCESS_SHARED_BARRIER_H_
