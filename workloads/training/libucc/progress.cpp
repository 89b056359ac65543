#include "progress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <thread>

namespace crossvendor {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// How the thread waits between two looks at the network. Small messages come back while it yields;
// for long ones, and on few cores or under a CPU limit, sleeping leaves the core to those who
// compute, and sockets buffer what arrives meanwhile. It never spins: with more ranks than cores
// that costs twice the processor time and gains nothing (README.md has the measurements).
constexpr microseconds YIELD{300};       // after the last event: let others run, look again
constexpr microseconds SLEEP{50};        // then sleep between looks while something is in flight
constexpr int LOOKS = 4;                 // UCC takes only so much off a socket at once
constexpr milliseconds LINGER{100};      // after the last collective a peer may still need answers
constexpr milliseconds LINGER_SLEEP{1};  // so look often at first
constexpr milliseconds IDLE_SLEEP{20};   // and rarely later
constexpr milliseconds CLEANUP{2000};    // for what is still to be done when told to stop
constexpr milliseconds STOP{5000};       // for that, and for UCC to close its connections

std::string status_error(const Task& task, ucc_status_t status) {
  return "libucc: " + task.describe() + " failed: " + ucc_status_string(status) +
         "; a peer died or called another collective, or UCC cannot do this one "
         "(UCC_LOG_LEVEL=INFO shows more).";
}

std::string timeout_error(const Task& task) {
  double seconds = std::chrono::duration<double>(task.timeout()).count();
  char text[32];
  snprintf(text, sizeof text, "%.4g", seconds);
  return "libucc: " + task.describe() + " did not end within " + text +
         " s; a peer died, stalled or called another collective.";
}

}  // namespace

struct Progress::State {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::shared_ptr<Task>> submitted;  // under the mutex
  bool stopping = false;                         // under the mutex
  bool stopped = false;                          // under the mutex
  std::condition_variable has_stopped;
  std::thread::id thread;  // set before anybody submits

  // Below: the progress thread only.
  std::vector<std::shared_ptr<Task>> running;
  std::vector<std::shared_ptr<Task>> abandoned;
  Clock::time_point last_event = Clock::now();

  // Takes what was submitted; sleeps according to how long nothing has happened. False: stop.
  bool take(std::vector<std::shared_ptr<Task>>& tasks);
  // Starts or tests one task; true when it is over.
  bool advance(const std::shared_ptr<Task>& task, ucc_status_t status);
  void abandon(const std::shared_ptr<Task>& task, const std::string& error);
  void clean_up(const std::shared_ptr<Task>& task, Context& context);
};

bool Progress::State::take(std::vector<std::shared_ptr<Task>>& tasks) {
  auto quiet = Clock::now() - last_event;
  std::unique_lock<std::mutex> lock(mutex);
  if (submitted.empty() && !stopping) {
    if (quiet < YIELD) {
      lock.unlock();
      sched_yield();
      lock.lock();
    } else if (!running.empty()) {
      wake.wait_for(lock, SLEEP);
    } else {
      wake.wait_for(lock, quiet < LINGER ? LINGER_SLEEP : IDLE_SLEEP);
    }
  }
  tasks.swap(submitted);
  return !stopping;
}

void Progress::State::abandon(const std::shared_ptr<Task>& task, const std::string& error) {
  task->finish(error);
  if (task->holds_ucc_resources()) abandoned.push_back(task);
}

bool Progress::State::advance(const std::shared_ptr<Task>& task, ucc_status_t status) {
  if (status == UCC_INPROGRESS) {
    if (Clock::now() < task->deadline()) return false;
    abandon(task, timeout_error(*task));
  } else if (status != UCC_OK) {
    abandon(task, status_error(*task, status));
  } else {
    task->finish("");
  }
  last_event = Clock::now();
  return true;
}

void Progress::State::clean_up(const std::shared_ptr<Task>& task, Context& context) {
  auto end = Clock::now() + CLEANUP;
  ucc_status_t status = task->start(context.handle());
  while (status == UCC_INPROGRESS && Clock::now() < end) {
    context.progress();
    status = task->test();
  }
  if (status == UCC_OK) {
    task->finish("");
  } else {
    abandon(task, status_error(*task, status));
  }
}

void Progress::run(std::shared_ptr<State> state, std::promise<void> ready) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for Python's threads
  pthread_setname_np(pthread_self(), "libucc");
  prctl(PR_SET_TIMERSLACK, 1UL);  // a sleep of 50 us shall not become 100

  state->thread = std::this_thread::get_id();
  std::unique_ptr<Context> context;
  try {
    context = std::make_unique<Context>();
  } catch (...) {
    ready.set_exception(std::current_exception());
    return;
  }
  ready.set_value();

  std::vector<std::shared_ptr<Task>> fresh;
  while (state->take(fresh)) {
    for (auto& task : fresh) {
      state->last_event = Clock::now();
      if (!state->advance(task, task->start(context->handle()))) state->running.push_back(task);
    }
    fresh.clear();
    for (int look = 0; look < LOOKS; ++look) context->progress();
    for (size_t i = 0; i < state->running.size();) {
      if (state->advance(state->running[i], state->running[i]->test())) {
        state->running.erase(state->running.begin() + i);
      } else {
        ++i;
      }
    }
  }

  for (auto* tasks : {&state->running, &fresh}) {
    for (auto& task : *tasks) {
      if (tasks == &fresh && task->is_cleanup()) {
        state->clean_up(task, *context);
      } else {
        state->abandon(task, "libucc: " + task->describe() + " was in flight at the shutdown.");
      }
    }
  }
  if (!state->abandoned.empty()) {
    context->abandon();
    // The buffers that UCC may still write to must not be freed either.
    new std::vector<std::shared_ptr<Task>>(std::move(state->abandoned));
  }
  context.reset();
  std::lock_guard<std::mutex> lock(state->mutex);
  state->stopped = true;
  state->has_stopped.notify_all();
}

Progress::Progress() : state_(std::make_shared<State>()) {
  std::promise<void> ready;
  std::future<void> outcome = ready.get_future();
  std::thread(run, state_, std::move(ready)).detach();
  outcome.get();
}

Progress::~Progress() { stop(); }

void Progress::stop() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->stopping = true;
  state_->wake.notify_all();
  // The last collective may be what held this object, and then its end is what ends us.
  if (std::this_thread::get_id() == state_->thread) return;
  state_->has_stopped.wait_for(lock, STOP, [this] { return state_->stopped; });
}

void Progress::submit(std::shared_ptr<Task> task) {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->stopping) {
      state_->submitted.push_back(std::move(task));
      state_->wake.notify_one();
      return;
    }
  }
  task->finish("libucc: " + task->describe() + " came after the shutdown.");
}

namespace {

// Never destroyed: a process may exit with the thread still there.
std::mutex& shared_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::weak_ptr<Progress>& shared_instance() {
  static auto* instance = new std::weak_ptr<Progress>;
  return *instance;
}

}  // namespace

std::shared_ptr<Progress> Progress::shared() {
  std::lock_guard<std::mutex> lock(shared_mutex());
  std::shared_ptr<Progress> progress = shared_instance().lock();
  if (!progress) {
    progress = std::make_shared<Progress>();
    shared_instance() = progress;
  }
  return progress;
}

void Progress::shut_down() {
  std::shared_ptr<Progress> progress;
  {
    std::lock_guard<std::mutex> lock(shared_mutex());
    progress = shared_instance().lock();
  }
  if (progress) progress->stop();
}

}  // namespace crossvendor
