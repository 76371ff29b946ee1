#include "shared/checkpoint/foreign/pickle_globals.h"

#include <array>

#include "shared/base/error.h"

namespace retina {
namespace {

using enum GlobalKind;
using enum ElementKind;

constexpr std::array kGlobals = {
    PickleGlobal{"collections", "OrderedDict", kOrderedDict},
    // "_rebuild_tensor" is what PyTorch before 0.4 wrote.
    PickleGlobal{"torch._utils", "_rebuild_tensor", kRebuildTensor},
    PickleGlobal{"torch._utils", "_rebuild_tensor_v2", kRebuildTensor},
    PickleGlobal{"torch._utils", "_rebuild_parameter", kWrapTensor},
    PickleGlobal{"torch._utils", "_rebuild_parameter_with_state", kWrapTensor},
    PickleGlobal{"torch.nn.parameter", "Parameter", kWrapTensor},
    PickleGlobal{"torch", "Size", kTuple},
    PickleGlobal{"torch", "FloatStorage", kStorage, kFloat32},
    PickleGlobal{"torch", "DoubleStorage", kStorage, kFloat64},
    PickleGlobal{"torch", "HalfStorage", kStorage, kFloat16},
    PickleGlobal{"torch", "BFloat16Storage", kStorage, kBfloat16},
    PickleGlobal{"torch", "LongStorage", kStorage, kInt64},
    PickleGlobal{"torch", "IntStorage", kStorage, kInt32},
    PickleGlobal{"torch", "ShortStorage", kStorage, kInt16},
    PickleGlobal{"torch", "CharStorage", kStorage, kInt8},
    PickleGlobal{"torch", "ByteStorage", kStorage, kUint8},
    PickleGlobal{"torch", "BoolStorage", kStorage, kBool},
    // What training checkpoints hold besides their tensors: options, counters, devices.
    PickleGlobal{"argparse", "Namespace", kInert},
    PickleGlobal{"collections", "Counter", kInert},
    PickleGlobal{"collections", "defaultdict", kInert},
    PickleGlobal{"builtins", "set", kInert},
    PickleGlobal{"__builtin__", "set", kInert},
    PickleGlobal{"_codecs", "encode", kInert},
    PickleGlobal{"torch", "device", kInert},
    PickleGlobal{"torch", "float32", kInert},
    PickleGlobal{"torch", "float16", kInert},
    PickleGlobal{"torch", "bfloat16", kInert},
};

}  // namespace

std::size_t element_bytes(ElementKind kind) {
  switch (kind) {
    case kFloat64:
    case kInt64:
      return 8;
    case kFloat32:
    case kInt32:
      return 4;
    case kFloat16:
    case kBfloat16:
    case kInt16:
      return 2;
    case kInt8:
    case kUint8:
    case kBool:
      return 1;
  }
  RETINA_CHECK(false, "element kind ", static_cast<int>(kind));
  return 0;
}

const PickleGlobal& global_at(std::int64_t place) {
  return kGlobals.at(static_cast<std::size_t>(place));
}

std::optional<std::int64_t> find_global(std::string_view module, std::string_view name) {
  for (std::size_t i = 0; i < kGlobals.size(); ++i) {
    if (kGlobals[i].module == module && kGlobals[i].name == name) {
      return static_cast<std::int64_t>(i);
    }
  }
  return std::nullopt;
}

}  // namespace retina
