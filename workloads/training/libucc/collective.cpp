#include "collective.h"

namespace crossvendor {

Collective::Collective(std::shared_ptr<Team> team, const ucc_coll_args_t& args, std::string what,
                       std::chrono::milliseconds timeout, OnEnd on_end)
    : Task(timeout),
      team_(std::move(team)),
      args_(args),
      what_(std::move(what)),
      on_end_(std::move(on_end)) {}

ucc_status_t Collective::start(ucc_context_h) {
  if (team_->is_broken) return UCC_ERR_NO_MESSAGE;
  ucc_status_t status = ucc_collective_init(&args_, &request_, team_->handle);
  if (status != UCC_OK) {
    request_ = nullptr;
    return status;
  }
  status = ucc_collective_post(request_);
  return status < 0 ? status : test();
}

ucc_status_t Collective::test() { return ucc_collective_test(request_); }

void Collective::finish(const std::string& error) noexcept {
  if (!error.empty()) {
    // A refusal is the same on every rank, and leaves the team as it was.
    if (request_ != nullptr) team_->is_broken = true;
    on_end_(error);
    return;
  }
  ucc_collective_finalize(request_);
  request_ = nullptr;
  on_end_(error);
  on_end_ = nullptr;
}

std::string Collective::describe() const {
  std::string text = team_->who() + ", " + what_;
  if (team_->is_broken && request_ == nullptr) text += " (after an earlier failure in this group)";
  return text;
}

}  // namespace crossvendor
