#include "types.h"

#include <c10/util/Exception.h>

namespace crossvendor {

namespace {

const DataType DATA_TYPES[] = {
    {at::kFloat, UCC_DT_FLOAT32, "float32"},
    {at::kDouble, UCC_DT_FLOAT64, "float64"},
    {at::kBFloat16, UCC_DT_BFLOAT16, "bfloat16"},
    {at::kChar, UCC_DT_INT8, "int8"},
    {at::kShort, UCC_DT_INT16, "int16"},
    {at::kInt, UCC_DT_INT32, "int32"},
    {at::kLong, UCC_DT_INT64, "int64"},
    {at::kByte, UCC_DT_UINT8, "uint8"},
    {at::kUInt16, UCC_DT_UINT16, "uint16"},
    {at::kUInt32, UCC_DT_UINT32, "uint32"},
    {at::kUInt64, UCC_DT_UINT64, "uint64"},
    {at::kComplexFloat, UCC_DT_FLOAT32_COMPLEX, "complex64"},
    {at::kComplexDouble, UCC_DT_FLOAT64_COMPLEX, "complex128"},
};

const Operation OPERATIONS[] = {
    {c10d::ReduceOp::SUM, UCC_OP_SUM, "sum"},      {c10d::ReduceOp::AVG, UCC_OP_AVG, "avg"},
    {c10d::ReduceOp::PRODUCT, UCC_OP_PROD, "product"}, {c10d::ReduceOp::MIN, UCC_OP_MIN, "min"},
    {c10d::ReduceOp::MAX, UCC_OP_MAX, "max"},      {c10d::ReduceOp::BAND, UCC_OP_BAND, "band"},
    {c10d::ReduceOp::BOR, UCC_OP_BOR, "bor"},      {c10d::ReduceOp::BXOR, UCC_OP_BXOR, "bxor"},
};

bool suits(ucc_reduction_op_t operation, at::ScalarType type) {
  switch (operation) {
    case UCC_OP_AVG:  // of integers: nobody says how to round
      return c10::isFloatingType(type);
    case UCC_OP_MIN:
    case UCC_OP_MAX:
      return !c10::isComplexType(type);
    case UCC_OP_BAND:
    case UCC_OP_BOR:
    case UCC_OP_BXOR:
      return c10::isIntegralType(type, /*includeBool=*/false);
    default:
      return true;
  }
}

}  // namespace

const DataType& data_type_of(at::ScalarType type) {
  // UCC's code for processors lacks it (1.4 to 1.9), and its knomial algorithms then report success
  // over an unreduced buffer.
  TORCH_CHECK_TYPE(type != at::kHalf, "libucc: UCC reduces no float16 in host memory; use bfloat16 "
                   "or float32.");
  for (const DataType& candidate : DATA_TYPES) {
    if (candidate.torch == type) return candidate;
  }
  TORCH_CHECK_TYPE(false, "libucc: UCC has no reductions of ", c10::toString(type),
                   "; convert the tensor to a number type.");
}

const Operation& operation_for(const c10d::ReduceOp& operation, const DataType& type) {
  for (const Operation& candidate : OPERATIONS) {
    if (candidate.torch != operation.op_) continue;
    TORCH_CHECK_TYPE(suits(candidate.ucc, type.torch), "libucc: ", candidate.name, " of ",
                     type.name, " is not defined; use another operation or type.");
    return candidate;
  }
  TORCH_CHECK_TYPE(false, "libucc: reduce operation ", static_cast<int>(operation.op_),
                   " is not carried; use sum, avg, product, min, max, band, bor or bxor.");
}

}  // namespace crossvendor
