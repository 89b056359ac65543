// Which torch types and operations UCC has, by name, and which pairs of them make sense.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <ucc/api/ucc.h>

#include <string>

namespace crossvendor {

struct DataType {
  at::ScalarType torch;
  ucc_datatype_t ucc;
  const char* name;
};

struct Operation {
  c10d::ReduceOp::RedOpType torch;
  ucc_reduction_op_t ucc;
  const char* name;
};

const DataType& data_type_of(at::ScalarType type);
// Throws unless UCC can reduce this type with this operation exactly as torch means it.
const Operation& operation_for(const c10d::ReduceOp& operation, const DataType& type);

}  // namespace crossvendor
