#include "convert/import/foreign_network.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <cstring>

#include "shared/base/error.h"

namespace retina {
namespace {

at::ScalarType scalar_type(ElementKind kind) {
  switch (kind) {
    case ElementKind::kFloat32:
      return at::kFloat;
    case ElementKind::kFloat64:
      return at::kDouble;
    case ElementKind::kFloat16:
      return at::kHalf;
    case ElementKind::kBfloat16:
      return at::kBFloat16;
    case ElementKind::kInt64:
      return at::kLong;
    case ElementKind::kInt32:
      return at::kInt;
    case ElementKind::kInt16:
      return at::kShort;
    case ElementKind::kInt8:
      return at::kChar;
    case ElementKind::kUint8:
      return at::kByte;
    case ElementKind::kBool:
      return at::kBool;
  }
  RETINA_CHECK(false, "element kind ", static_cast<int>(kind));
  return at::kFloat;
}

}  // namespace

at::Tensor to_tensor(const ForeignTensor& foreign) {
  const auto count =
      static_cast<std::int64_t>(foreign.bytes.size() / element_bytes(foreign.element));
  const at::Tensor memory =
      at::empty({count}, at::TensorOptions().dtype(scalar_type(foreign.element)));
  if (count > 0) std::memcpy(memory.data_ptr(), foreign.bytes.data(), foreign.bytes.size());
  return at::as_strided(memory, foreign.shape, foreign.strides);
}

void check_finite(const NamedTensors& state, const std::string& subject) {
  for (const auto& [name, tensor] : state) {
    if (!tensor.is_floating_point()) continue;
    const at::Tensor finite = at::isfinite(tensor.to(at::kFloat));
    if (finite.all().item<bool>()) continue;
    throw Error(ErrorKind::kData,
                cat(subject, ": tensor ", name, " has values that are not finite (got ",
                    tensor.numel() - finite.sum().item<std::int64_t>(), " of ", tensor.numel(),
                    " NaN, infinite or beyond f32)"),
                "its training diverged: take an earlier checkpoint of it");
  }
}

void check_variances(const NamedTensors& state, const ModelConfig& config,
                     const std::string& subject) {
  if (config.norm_eps > 0) return;
  for (const auto& [name, tensor] : state) {
    if (!name.ends_with(".running_var") || tensor.gt(0).all().item<bool>()) continue;
    throw Error(ErrorKind::kConfig,
                cat(subject, ": tensor ", name, " has a variance of 0, which needs an epsilon"),
                "add --norm-eps 1e-5");
  }
}

}  // namespace retina
