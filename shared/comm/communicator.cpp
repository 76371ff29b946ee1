#include "shared/comm/communicator.h"

namespace retina {

std::size_t element_size_bytes(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return 1;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kFloat32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kFloat64:
      break;
  }
  return 8;
}

const char* element_name(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return "uint8";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kBFloat16:
      break;
  }
  return "bfloat16";
}

std::int64_t Communicator::all_reduce_max(std::int64_t value) {
  all_reduce(&value, 1, ElementType::kInt64, ReduceOp::kMax);
  return value;
}

std::int64_t Communicator::all_reduce_sum(std::int64_t value) {
  all_reduce(&value, 1, ElementType::kInt64, ReduceOp::kSum);
  return value;
}

std::string Communicator::broadcast(const std::string& bytes, int root) {
  auto size_bytes = static_cast<std::int64_t>(bytes.size());
  broadcast(&size_bytes, 1, ElementType::kInt64, root);
  std::string copy = bytes;
  copy.resize(static_cast<std::size_t>(size_bytes));
  broadcast(copy.data(), copy.size(), ElementType::kUint8, root);
  return copy;
}

}  // namespace retina
