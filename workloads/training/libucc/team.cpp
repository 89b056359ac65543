#include "team.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

namespace crossvendor {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds DESTRUCTION{5000};

// Teams that share processes need different ids, or their messages would match each other. UCC can
// agree on one itself, but only through a further team; the largest of the members' counters does.
std::atomic<uint64_t>& next_id() {
  static std::atomic<uint64_t> counter{1};
  return counter;
}

uint64_t agree_on_id(const Allgather& allgather) {
  uint64_t mine = next_id().load();
  std::string all = allgather(std::string(reinterpret_cast<char*>(&mine), sizeof mine));
  for (size_t offset = 0; offset < all.size(); offset += sizeof mine) {
    uint64_t theirs;
    std::memcpy(&theirs, all.data() + offset, sizeof theirs);
    mine = std::max(mine, theirs);
  }
  next_id().store(mine + 1);
  return mine;
}

// One all-gather that UCC asked for on the progress thread and the creating thread answers.
struct Exchange {
  std::string mine;
  char* destination;
  std::string all;
  std::atomic<ucc_status_t> status{UCC_INPROGRESS};
};

// Where the two threads meet while a team is made.
class Meeting {
 public:
  std::shared_ptr<Exchange> ask(std::string mine, void* destination) {
    auto exchange = std::make_shared<Exchange>();
    exchange->mine = std::move(mine);
    exchange->destination = static_cast<char*>(destination);
    std::lock_guard<std::mutex> lock(mutex_);
    asked_.push_back(exchange);
    changed_.notify_one();
    return exchange;
  }

  void end(const std::string& error) {
    std::lock_guard<std::mutex> lock(mutex_);
    has_ended_ = true;
    error_ = error;
    changed_.notify_one();
  }

  // Answers until the team is made; returns why it was not, or "".
  std::string serve(const Allgather& allgather) {
    std::string first_error;
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return has_ended_ || !asked_.empty(); });
      if (asked_.empty()) return first_error.empty() ? error_ : first_error;
      std::shared_ptr<Exchange> exchange = asked_.front();
      asked_.pop_front();
      lock.unlock();
      try {
        exchange->all = allgather(exchange->mine);
        exchange->status = UCC_OK;
      } catch (const std::exception& error) {
        if (first_error.empty()) first_error = error.what();
        exchange->status = UCC_ERR_TIMED_OUT;
      }
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Exchange>> asked_;
  bool has_ended_ = false;
  std::string error_;
};

ucc_status_t oob_allgather(void* source, void* destination, size_t size, void* meeting,
                           void** request) {
  auto exchange = static_cast<Meeting*>(meeting)->ask(
      std::string(static_cast<char*>(source), size), destination);
  *request = new std::shared_ptr<Exchange>(std::move(exchange));
  return UCC_OK;
}

ucc_status_t oob_test(void* request) {
  Exchange& exchange = **static_cast<std::shared_ptr<Exchange>*>(request);
  ucc_status_t status = exchange.status;
  // Copied here, on UCC's thread, so that nobody writes into memory that UCC has given up.
  if (status == UCC_OK && !exchange.all.empty()) {
    std::memcpy(exchange.destination, exchange.all.data(), exchange.all.size());
    exchange.all.clear();
  }
  return status;
}

ucc_status_t oob_free(void* request) {
  delete static_cast<std::shared_ptr<Exchange>*>(request);
  return UCC_OK;
}

class TeamDestruction : public Task {
 public:
  TeamDestruction(ucc_team_h handle, std::string who)
      : Task(DESTRUCTION), handle_(handle), who_(std::move(who)) {}
  ucc_status_t start(ucc_context_h) override { return test(); }
  ucc_status_t test() override { return ucc_team_destroy(handle_); }
  void finish(const std::string&) noexcept override {}
  bool is_cleanup() const override { return true; }
  std::string describe() const override { return who_ + ", destroying the team"; }

 private:
  ucc_team_h handle_;
  std::string who_;
};

class TeamCreation : public Task {
 public:
  TeamCreation(std::shared_ptr<Team> team, int rank, int size, uint64_t id, milliseconds timeout)
      : Task(timeout), team_(std::move(team)), rank_(rank), size_(size), id_(id) {}

  ucc_status_t start(ucc_context_h context) override {
    ucc_team_params_t params = {};
    params.mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE |
                  UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_ID;
    params.ep = rank_;
    params.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    params.id = id_;
    params.oob.allgather = oob_allgather;
    params.oob.req_test = oob_test;
    params.oob.req_free = oob_free;
    params.oob.coll_info = &meeting;
    params.oob.n_oob_eps = size_;
    params.oob.oob_ep = rank_;
    ucc_status_t status = ucc_team_create_post(&context, 1, &params, &handle_);
    return status == UCC_OK ? UCC_INPROGRESS : status;
  }
  ucc_status_t test() override { return ucc_team_create_test(handle_); }
  void finish(const std::string& error) noexcept override {
    if (error.empty()) team_->handle = handle_;
    meeting.end(error);
  }
  std::string describe() const override { return team_->who() + ", making the team"; }

  Meeting meeting;

 private:
  std::shared_ptr<Team> team_;
  int rank_;
  int size_;
  uint64_t id_;
  ucc_team_h handle_ = nullptr;
};

}  // namespace

std::shared_ptr<Team> Team::create(std::shared_ptr<Progress> progress, const std::string& name,
                                   int rank, int size, milliseconds timeout,
                                   const Allgather& allgather) {
  // Two teams at once in one process could end up with one id.
  static auto* one_at_a_time = new std::mutex;
  std::lock_guard<std::mutex> lock(*one_at_a_time);

  std::string who = "rank " + std::to_string(rank) + " of " + std::to_string(size);
  if (!name.empty()) who += " in group " + name;
  std::shared_ptr<Team> team(new Team(std::move(progress), std::move(who)));
  uint64_t id = agree_on_id(allgather);
  // The store's timeout comes first and names the missing rank; this one is for UCC's own steps.
  auto creation = std::make_shared<TeamCreation>(team, rank, size, id, 2 * timeout);
  team->progress().submit(creation);
  std::string error = creation->meeting.serve(allgather);
  if (!error.empty()) throw std::runtime_error(error);
  return team;
}

Team::~Team() {
  if (handle != nullptr && !is_broken) {
    progress_->submit(std::make_shared<TeamDestruction>(handle, who_));
  }
}

}  // namespace crossvendor
