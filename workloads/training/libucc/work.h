// torch's handle of a collective in flight.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <vector>

namespace crossvendor {

class Work final : public c10d::Work {
 public:
  Work(int rank, c10d::OpType type, std::vector<at::Tensor> outputs);

  // Called once, from any thread, without the GIL; an error becomes what `wait` throws.
  void complete(const std::string& error);

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void settle(const c10::intrusive_ptr<c10::ivalue::Future>& future);

  std::vector<at::Tensor> outputs_;
  std::atomic<bool> is_over_{false};
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // under mutex_; made on demand
};

}  // namespace crossvendor
