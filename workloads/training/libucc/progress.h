// The one thread that calls UCC: it owns the context, starts what was submitted, drives it to its
// end, and gives up what passes its deadline. It knows nothing of torch and never takes the GIL.
#pragma once

#include "context.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace crossvendor {

using Clock = std::chrono::steady_clock;

// A thing to do with UCC. Once submitted, only the progress thread calls it.
class Task {
 public:
  explicit Task(std::chrono::milliseconds timeout)
      : timeout_(timeout), deadline_(Clock::now() + timeout) {}
  virtual ~Task() = default;

  // Called first, once.
  virtual ucc_status_t start(ucc_context_h context) = 0;
  // Called while the last answer was UCC_INPROGRESS.
  virtual ucc_status_t test() = 0;
  // Called last, once; an empty error means success. Must not throw, block or take the GIL.
  virtual void finish(const std::string& error) noexcept = 0;
  // "rank 1 of 3, allreduce(sum, float32, 8 elements)"
  virtual std::string describe() const = 0;
  // False where a failure leaves nothing behind in UCC.
  virtual bool holds_ucc_resources() const { return true; }
  // True where the task is still to be done when the thread is told to stop.
  virtual bool is_cleanup() const { return false; }

  std::chrono::milliseconds timeout() const { return timeout_; }
  Clock::time_point deadline() const { return deadline_; }

 private:
  std::chrono::milliseconds timeout_;
  Clock::time_point deadline_;
};

class Progress {
 public:
  // The process's instance; it lives as long as somebody holds it, so that the last process group
  // to go takes the thread and the context with it.
  static std::shared_ptr<Progress> shared();
  // Ends the thread for good before the interpreter goes; what is in flight fails.
  static void shut_down();

  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void submit(std::shared_ptr<Task> task);

 private:
  struct State;
  static void run(std::shared_ptr<State> state, std::promise<void> ready);
  void stop();

  // Shared with the thread, which may outlive this object if UCC does not let it end.
  std::shared_ptr<State> state_;
};

}  // namespace crossvendor
