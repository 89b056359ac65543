// A UCC team: the ranks of one process group, in any order, made and unmade by the progress thread.
//
// Making one needs UCC's "out of band" all-gathers. They go through torch's store and block, so the
// thread that asked for the team does them, while the progress thread goes on with other teams.
#pragma once

#include "progress.h"

#include <deque>
#include <functional>

namespace crossvendor {

// All-gathers equally long byte strings over the team, in rank order; blocks, throws on a timeout.
using Allgather = std::function<std::string(const std::string& mine)>;

class Team {
 public:
  // Blocks until every rank has come; throws std::runtime_error.
  static std::shared_ptr<Team> create(std::shared_ptr<Progress> progress, const std::string& name,
                                      int rank, int size, std::chrono::milliseconds timeout,
                                      const Allgather& allgather);
  ~Team();

  // "rank 1 of 3 in group 0"
  const std::string& who() const { return who_; }
  Progress& progress() { return *progress_; }

  // Whatever is in flight on a team holds it, so these two are the progress thread's until its end.
  ucc_team_h handle = nullptr;
  bool is_broken = false;  // a collective failed: the ranks are no longer in step

 private:
  Team(std::shared_ptr<Progress> progress, std::string who)
      : progress_(std::move(progress)), who_(std::move(who)) {}

  std::shared_ptr<Progress> progress_;
  std::string who_;
};

}  // namespace crossvendor
