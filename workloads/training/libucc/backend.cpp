#include "backend.h"

#include "types.h"
#include "work.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace crossvendor {

using std::chrono::milliseconds;

namespace {

// How much longer than the first rank the others wait for its verdict on who is missing.
constexpr milliseconds VERDICT{5000};

// All-gathers through the store: everybody sets a key, the first rank joins them, everybody reads
// the whole. That is 3 requests per rank, where reading each other's keys would be n.
class StoreAllgather {
 public:
  StoreAllgather(c10::intrusive_ptr<c10d::Store> store, int rank, int size, milliseconds timeout)
      : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {}

  std::string operator()(const std::string& mine) {
    std::string prefix = "libucc/" + std::to_string(step_++) + "/";
    store_->set(prefix + std::to_string(rank_), mine);
    std::string whole_key = prefix + "whole";
    if (rank_ == 0) store_->set(whole_key, join(prefix, mine.size()));
    await(whole_key, timeout_ + VERDICT, 0);
    std::string whole = store_->get_to_str(whole_key);
    if (whole.front() == FAILED) throw std::runtime_error(whole.substr(1));
    return whole.substr(1);
  }

 private:
  static constexpr char FAILED = '!';
  static constexpr char GOOD = '.';

  std::string join(const std::string& prefix, size_t length) {
    std::string whole(1, GOOD);
    auto end = Clock::now() + timeout_;
    try {
      for (int rank = 0; rank < size_; ++rank) {
        std::string key = prefix + std::to_string(rank);
        auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
        await(key, std::max(left, milliseconds(1)), rank);
        whole += store_->get_to_str(key);
        if (whole.size() != 1 + (rank + 1) * length) {
          throw std::runtime_error("libucc: rank " + std::to_string(rank) + " sent " +
                                   std::to_string(whole.size() - 1 - rank * length) +
                                   " bytes where rank 0 sent " + std::to_string(length) +
                                   "; do the ranks have the same UCC and UCX?");
        }
      }
    } catch (const std::runtime_error& error) {
      return FAILED + std::string(error.what());
    }
    return whole;
  }

  void await(const std::string& key, milliseconds timeout, int rank) {
    try {
      store_->wait({key}, timeout);
    } catch (const c10::Error&) {
      throw std::runtime_error("libucc: rank " + std::to_string(rank) + " of " +
                               std::to_string(size_) + " did not come to make the team within " +
                               std::to_string(timeout_.count() / 1000.0).substr(0, 5) +
                               " s; look at its log.");
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  milliseconds timeout_;
  int step_ = 0;
};

std::shared_ptr<Team> make_team(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                milliseconds timeout, const std::string& name) {
  StoreAllgather allgather(store, rank, size, timeout);
  Context::stand_apart(rank, std::ref(allgather));  // before the first context is made
  return Team::create(Progress::shared(), name, rank, size, timeout, allgather);
}

void require_host(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "libucc: a tensor on ", tensor.device(),
                    " was given; this version carries host memory only, so move it to the CPU.");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided && tensor.is_contiguous(),
                    "libucc: a tensor of shape ", tensor.sizes(), " is not contiguous; pass its "
                    ".contiguous() copy.");
}

at::Tensor& the_only(std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "libucc: ", tensors.size(),
                    " tensors were given for one collective; pass exactly one.");
  require_host(tensors[0]);
  return tensors[0];
}

ucc_coll_buffer_info_t buffer_of(const at::Tensor& tensor, ucc_datatype_t type, size_t count) {
  ucc_coll_buffer_info_t info = {};
  info.buffer = tensor.data_ptr();
  info.count = count;
  info.datatype = type;
  info.mem_type = UCC_MEMORY_TYPE_HOST;
  return info;
}

// What is only moved, not reduced, moves as bytes: every torch type can.
ucc_coll_buffer_info_t bytes_of(const at::Tensor& tensor) {
  return buffer_of(tensor, UCC_DT_UINT8, tensor.nbytes());
}

std::string elements(const at::Tensor& tensor) {
  return c10::str(tensor.scalar_type(), ", ", tensor.numel(), " elements");
}

}  // namespace

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 milliseconds timeout, const std::string& name)
    : c10d::Backend(rank, size),
      timeout_(timeout),
      team_(make_team(store, rank, size, timeout, name)) {}

c10::intrusive_ptr<c10d::Work> Backend::submit(const ucc_coll_args_t& args, Call call) {
  ++sequence_;
  auto work = c10::make_intrusive<Work>(rank_, call.type, std::move(call.outputs));
  auto timeout = call.timeout == c10d::kUnsetTimeout ? timeout_ : call.timeout;
  team_->progress().submit(std::make_shared<Collective>(
      team_, args, std::move(call.what), timeout,
      [work, inputs = std::move(call.inputs),
       on_success = std::move(call.on_success)](const std::string& error) {
        if (error.empty() && on_success) on_success();
        work->complete(error);
      }));
  return work;
}

c10::intrusive_ptr<c10d::Work> Backend::allreduce(std::vector<at::Tensor>& tensors,
                                                  const c10d::AllreduceOptions& options) {
  at::Tensor& tensor = the_only(tensors);
  return allreduce_into(tensor, tensor, options);
}

c10::intrusive_ptr<c10d::Work> Backend::allreduce_into(at::Tensor& output, const at::Tensor& input,
                                                       const c10d::AllreduceOptions& options) {
  require_host(output);
  require_host(input);
  TORCH_CHECK_VALUE(output.numel() == input.numel() && output.dtype() == input.dtype(),
                    "libucc: the output has ", elements(output), " and the input ",
                    elements(input), "; they must be alike.");
  const DataType& type = data_type_of(input.scalar_type());
  const Operation& operation = operation_for(options.reduceOp, type);
  ucc_coll_args_t args = {};
  args.coll_type = UCC_COLL_TYPE_ALLREDUCE;
  args.op = operation.ucc;
  args.src.info = buffer_of(input, type.ucc, input.numel());
  args.dst.info = buffer_of(output, type.ucc, output.numel());
  if (input.data_ptr() == output.data_ptr()) {
    args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags |= UCC_COLL_ARGS_FLAG_IN_PLACE;
  }
  std::string what = c10::str("allreduce(", operation.name, ", ", type.name, ", ", input.numel(),
                              " elements)");
  return submit(args, {.type = c10d::OpType::ALLREDUCE, .what = std::move(what),
                       .timeout = options.timeout, .inputs = {input}, .outputs = {output}});
}

c10::intrusive_ptr<c10d::Work> Backend::broadcast(std::vector<at::Tensor>& tensors,
                                                  const c10d::BroadcastOptions& options) {
  at::Tensor& tensor = the_only(tensors);
  ucc_coll_args_t args = {};
  args.coll_type = UCC_COLL_TYPE_BCAST;
  args.root = options.rootRank;
  args.src.info = bytes_of(tensor);
  std::string what = c10::str("broadcast(from ", options.rootRank, ", ", elements(tensor), ")");
  return submit(args, {.type = c10d::OpType::BROADCAST, .what = std::move(what),
                       .timeout = options.timeout, .inputs = {}, .outputs = {tensor}});
}

c10::intrusive_ptr<c10d::Work> Backend::gather_all(at::Tensor output, const at::Tensor& input,
                                                   std::vector<at::Tensor> results,
                                                   std::function<void()> on_success,
                                                   milliseconds timeout) {
  ucc_coll_args_t args = {};
  args.coll_type = UCC_COLL_TYPE_ALLGATHER;
  args.src.info = bytes_of(input);
  args.dst.info = bytes_of(output);
  // FSDP gathers into a buffer that holds its own part already.
  const char* slot = static_cast<char*>(output.data_ptr()) + rank_ * input.nbytes();
  if (input.data_ptr() == slot) {
    args.mask |= UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags |= UCC_COLL_ARGS_FLAG_IN_PLACE;
  }
  std::string what = "allgather(" + elements(input) + ")";
  return submit(args, {.type = c10d::OpType::ALLGATHER, .what = std::move(what),
                       .timeout = timeout, .inputs = {input, output},
                       .outputs = std::move(results), .on_success = std::move(on_success)});
}

c10::intrusive_ptr<c10d::Work> Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  require_host(output);
  require_host(input);
  TORCH_CHECK_VALUE(output.numel() == input.numel() * size_ && output.dtype() == input.dtype(),
                    "libucc: the output has ", elements(output), "; gathering ", elements(input),
                    " from ", size_, " ranks needs ", input.numel() * size_, " of the same type.");
  return gather_all(output, input, {output}, nullptr, options.timeout);
}

c10::intrusive_ptr<c10d::Work> Backend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                  std::vector<at::Tensor>& inputs,
                                                  const c10d::AllgatherOptions& options) {
  const at::Tensor& input = the_only(inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_),
                    "libucc: an allgather over ", size_, " ranks needs one list of ", size_,
                    " output tensors.");
  for (const at::Tensor& output : outputs[0]) {
    require_host(output);
    TORCH_CHECK_VALUE(output.numel() == input.numel() && output.dtype() == input.dtype(),
                      "libucc: an output of ", elements(output), " cannot take ", elements(input),
                      "; give every rank's output the input's shape and type.");
  }
  // UCC gathers into one buffer, torch's caller has one per rank.
  at::Tensor whole = at::empty({size_, input.numel()}, input.options());
  auto scatter = [whole, results = outputs[0]] {
    at::NoGradGuard no_grad;
    for (size_t rank = 0; rank < results.size(); ++rank) {
      results[rank].copy_(whole[static_cast<int64_t>(rank)].view_as(results[rank]));
    }
  };
  return gather_all(whole, input, outputs[0], scatter, options.timeout);
}

c10::intrusive_ptr<c10d::Work> Backend::barrier(const c10d::BarrierOptions& options) {
  ucc_coll_args_t args = {};
  args.coll_type = UCC_COLL_TYPE_BARRIER;
  return submit(args, {.type = c10d::OpType::BARRIER, .what = "barrier()",
                       .timeout = options.timeout, .inputs = {}, .outputs = {}});
}

}  // namespace crossvendor
