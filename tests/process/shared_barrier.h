#ifndef TESTS_PROCESS_SHARED_BARRIER_H_
#define TESTS_PROCESS_SHARED_BARRIER_H_

#include <pthread.h>

namespace capstan {

// Where forked processes wait for each other, in memory that they share. To be made before they
// are; the maker outlives their waits.
class SharedBarrier {
 public:
  explicit SharedBarrier(int num_processes);
  ~SharedBarrier();
  SharedBarrier(const SharedBarrier&) = delete;
  SharedBarrier& operator=(const SharedBarrier&) = delete;

  // Returns when as many processes wait. Used again and again.
  void Wait();

 private:
  pthread_barrier_t* const barrier_;
};

}  // namespace capstan

#endif  // TESTS_PROCESS_SHARED_BARRIER_H_
