// The names that a pickle may mention, and what they stand for. Nothing else is ever built: a
// pickle that names os.system is refused at that name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shared/checkpoint/foreign/pickle_value.h"

namespace retina {

enum class GlobalKind : std::uint8_t {
  kOrderedDict,    // () or (list of pairs,)
  kRebuildTensor,  // (storage, offset, sizes, strides, ...)
  kWrapTensor,     // (tensor, ...): _rebuild_parameter, Parameter
  kTuple,          // (sequence,): torch.Size
  kStorage,        // the type of a storage; never called
  kInert,          // whatever it makes, no tensor depends on it
};

struct PickleGlobal {
  std::string_view module{}, name{};
  GlobalKind kind = GlobalKind::kInert;
  ElementKind element = ElementKind::kFloat32;  // of kStorage
};

// The allow-list's entry number `place`, as find_global gave it.
const PickleGlobal& global_at(std::int64_t place);

// Place of `module`.`name` in the allow-list; nullopt: refuse it.
std::optional<std::int64_t> find_global(std::string_view module, std::string_view name);

}  // namespace retina
