#ifndef DEPLOY_CLI_INTERRUPT_SIGNALS_H_
#define DEPLOY_CLI_INTERRUPT_SIGNALS_H_

#include <csignal>

namespace capstan {

// Holds back SIGINT, SIGTERM and SIGHUP (unless ignored), so that they are asked for instead of
// ending the process. Create it before any thread, so that all threads hold them back. Not
// thread-safe.
class InterruptSignals {
 public:
  InterruptSignals();
  ~InterruptSignals();
  InterruptSignals(const InterruptSignals&) = delete;
  InterruptSignals& operator=(const InterruptSignals&) = delete;

  // True once for each signal that has come. Does not wait.
  bool Take();

 private:
  sigset_t signals_;
  sigset_t previous_mask_;
};

}  // namespace capstan

#endif  // DEPLOY_CLI_INTERRUPT_SIGNALS_H_
