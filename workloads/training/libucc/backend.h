// The torch.distributed backend "libucc": tensors in, UCC collectives out.
//
// Host memory only so far. Other memory comes in through `buffer_of`, and streams through the
// point where a collective is submitted; nothing below this file knows of either.
#pragma once

#include "collective.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace crossvendor {

class Backend final : public c10d::Backend {
 public:
  // `name` tells groups apart in messages.
  Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          std::chrono::milliseconds timeout, const std::string& name);

  const std::string getBackendName() const override { return "libucc"; }

  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options = c10d::AllreduceOptions()) override;
  // Out of place, which torch's interface does not have: other algorithms in UCC.
  c10::intrusive_ptr<c10d::Work> allreduce_into(at::Tensor& output, const at::Tensor& input,
                                                const c10d::AllreduceOptions& options);
  c10::intrusive_ptr<c10d::Work> broadcast(
      std::vector<at::Tensor>& tensors,
      const c10d::BroadcastOptions& options = c10d::BroadcastOptions()) override;
  c10::intrusive_ptr<c10d::Work> allgather(
      std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(
      at::Tensor& output, at::Tensor& input,
      const c10d::AllgatherOptions& options = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> barrier(
      const c10d::BarrierOptions& options = c10d::BarrierOptions()) override;

  void setSequenceNumberForGroup() override {}  // counted from the first collective
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

 private:
  // What differs from one collective to the next.
  struct Call {
    c10d::OpType type;
    std::string what;
    std::chrono::milliseconds timeout;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    std::function<void()> on_success = nullptr;
  };
  c10::intrusive_ptr<c10d::Work> submit(const ucc_coll_args_t& args, Call call);
  c10::intrusive_ptr<c10d::Work> gather_all(at::Tensor output, const at::Tensor& input,
                                            std::vector<at::Tensor> results,
                                            std::function<void()> on_success,
                                            std::chrono::milliseconds timeout);

  std::chrono::milliseconds timeout_;
  std::shared_ptr<Team> team_;
  uint64_t sequence_ = 0;
};

}  // namespace crossvendor
