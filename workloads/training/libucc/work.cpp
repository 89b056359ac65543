#include "work.h"

#include <c10/util/Exception.h>

#include <sched.h>

#include <deque>
#include <functional>
#include <thread>

namespace crossvendor {

namespace {

// A small collective is over before a sleeping thread would be awake.
constexpr std::chrono::microseconds WAIT_SPIN{100};

// Runs what follows on a future. Python may have hung callbacks on it, which take the GIL, and the
// progress thread must not wait for that.
class Notifier {
 public:
  // Never destroyed: at the process's end its thread may be inside Python.
  static Notifier& instance() {
    static auto* notifier = new Notifier;
    return *notifier;
  }

  void post(std::function<void()> call) {
    std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_one();
  }

 private:
  Notifier() { std::thread([this] { run(); }).detach(); }

  void run() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !calls_.empty(); });
      std::function<void()> call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      call();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
};

}  // namespace

Work::Work(int rank, c10d::OpType type, std::vector<at::Tensor> outputs)
    : c10d::Work(rank, type), outputs_(std::move(outputs)) {}

void Work::complete(const std::string& error) {
  std::exception_ptr exception;
  if (!error.empty()) {
    exception = std::make_exception_ptr(
        c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error));
  }
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    completed_ = true;
    is_over_.store(true, std::memory_order_release);
    exception_ = exception;
    future = future_;
    cv_.notify_all();
  }
  if (future) {
    auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
    Notifier::instance().post([self, future] { self->settle(future); });
  }
}

bool Work::wait(std::chrono::milliseconds timeout) {
  auto end = std::chrono::steady_clock::now() + WAIT_SPIN;
  while (!is_over_.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < end) {
    sched_yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  auto is_over = [this] { return completed_; };
  if (timeout == kNoTimeout) {
    cv_.wait(lock, is_over);  // the progress thread ends everything by its deadline
  } else if (!cv_.wait_for(lock, timeout, is_over)) {
    TORCH_CHECK_WITH(DistBackendError, false, "libucc: rank ", rank_, " waited ", timeout.count(),
                     " ms for ", c10d::opTypeToString(opType_), " which is still in flight.");
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()));
    if (completed_) {
      lock.unlock();
      settle(future_);
    }
  }
  return future_;
}

void Work::settle(const c10::intrusive_ptr<c10::ivalue::Future>& future) {
  if (exception_) {
    future->setError(exception_);
  } else {
    future->markCompleted(c10::IValue(outputs_));
  }
}

}  // namespace crossvendor
