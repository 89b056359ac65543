// One collective of one team, from UCC's arguments to its end.
#pragma once

#include "team.h"

namespace crossvendor {

class Collective : public Task {
 public:
  // `on_end` is called once, on the progress thread, with the error or "". It should own the
  // buffers that `args` points to: it is released after success, and kept for ever after a
  // failure, because UCC may then still write to them.
  using OnEnd = std::function<void(const std::string& error)>;

  // `what` reads "allreduce(sum, float32, 8 elements)".
  Collective(std::shared_ptr<Team> team, const ucc_coll_args_t& args, std::string what,
             std::chrono::milliseconds timeout, OnEnd on_end);

  ucc_status_t start(ucc_context_h context) override;
  ucc_status_t test() override;
  void finish(const std::string& error) noexcept override;
  std::string describe() const override;
  bool holds_ucc_resources() const override { return request_ != nullptr; }

 private:
  std::shared_ptr<Team> team_;
  ucc_coll_args_t args_;
  std::string what_;
  OnEnd on_end_;
  ucc_coll_req_h request_ = nullptr;
};

}  // namespace crossvendor
