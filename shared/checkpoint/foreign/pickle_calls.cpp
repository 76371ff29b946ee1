// Replaces Python's calls: each allowed name gives plain data, all others are refused: a pickle
// that names os.system is refused at that name.
#include <algorithm>
#include <array>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/foreign_content.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/foreign/pickle_stack.h"

namespace retina {
namespace {

using enum PickleKind;
using Element = ElementKind;

// Meaning of a name of the allow-list.
enum class GlobalKind : std::uint8_t {
  kOrderedDict,    // () or (list of pairs,)
  kRebuildTensor,  // (storage, offset, sizes, strides, ...)
  kWrapTensor,     // (tensor, ...): _rebuild_parameter, Parameter
  kTuple,          // (sequence,): torch.Size
  kStorage,        // the type of a storage; never called
  kInert,          // no tensor depends on the result
};

struct PickleGlobal {
  std::string_view module{}, name{};
  GlobalKind kind = GlobalKind::kInert;
  ElementKind element = ElementKind::kFloat32;  // of kStorage
};

constexpr std::array kGlobals = {
    PickleGlobal{"collections", "OrderedDict", GlobalKind::kOrderedDict},
    // "_rebuild_tensor" was written by PyTorch before 0.4.
    PickleGlobal{"torch._utils", "_rebuild_tensor", GlobalKind::kRebuildTensor},
    PickleGlobal{"torch._utils", "_rebuild_tensor_v2", GlobalKind::kRebuildTensor},
    PickleGlobal{"torch._utils", "_rebuild_parameter", GlobalKind::kWrapTensor},
    PickleGlobal{"torch._utils", "_rebuild_parameter_with_state", GlobalKind::kWrapTensor},
    PickleGlobal{"torch.nn.parameter", "Parameter", GlobalKind::kWrapTensor},
    PickleGlobal{"torch", "Size", GlobalKind::kTuple},
    PickleGlobal{"torch", "FloatStorage", GlobalKind::kStorage, Element::kFloat32},
    PickleGlobal{"torch", "DoubleStorage", GlobalKind::kStorage, Element::kFloat64},
    PickleGlobal{"torch", "HalfStorage", GlobalKind::kStorage, Element::kFloat16},
    PickleGlobal{"torch", "BFloat16Storage", GlobalKind::kStorage, Element::kBfloat16},
    PickleGlobal{"torch", "LongStorage", GlobalKind::kStorage, Element::kInt64},
    PickleGlobal{"torch", "IntStorage", GlobalKind::kStorage, Element::kInt32},
    PickleGlobal{"torch", "ShortStorage", GlobalKind::kStorage, Element::kInt16},
    PickleGlobal{"torch", "CharStorage", GlobalKind::kStorage, Element::kInt8},
    PickleGlobal{"torch", "ByteStorage", GlobalKind::kStorage, Element::kUint8},
    PickleGlobal{"torch", "BoolStorage", GlobalKind::kStorage, Element::kBool},
    // Other content of training checkpoints: options, counters, devices.
    PickleGlobal{"argparse", "Namespace"},
    PickleGlobal{"collections", "Counter"},
    PickleGlobal{"collections", "defaultdict"},
    PickleGlobal{"builtins", "set"},
    PickleGlobal{"__builtin__", "set"},
    PickleGlobal{"_codecs", "encode"},
    PickleGlobal{"torch", "device"},
    PickleGlobal{"torch", "float32"},
    PickleGlobal{"torch", "float16"},
    PickleGlobal{"torch", "bfloat16"},
};

const PickleGlobal& global_at(std::int64_t place) {
  return kGlobals.at(static_cast<std::size_t>(place));
}

// Returns argument `index` of the tuple `arguments`, which must be of `kind`.
PickleRef argument(PickleStack& stack, PickleRef arguments, std::size_t index, PickleKind kind) {
  const std::vector<PickleRef>& items = stack.at(arguments).items;
  if (index >= items.size() || stack.at(items[index]).kind != kind) {
    throw PickleProblem{"a call in the pickle has different arguments from PyTorch's"};
  }
  return items[index];
}

// Returns the content of an OrderedDict: Python 2 gave it as one list of [key, value] lists.
std::vector<PickleRef> pairs_of(PickleStack& stack, PickleRef arguments) {
  std::vector<PickleRef> items;
  if (stack.at(arguments).items.empty()) return items;
  const std::vector<PickleRef>& pairs = stack.at(argument(stack, arguments, 0, kList)).items;
  stack.spend(2 * pairs.size());
  for (const PickleRef ref : pairs) {
    const PickleValue& pair = stack.at(ref);
    if ((pair.kind != kList && pair.kind != kTuple) || pair.items.size() != 2) {
      throw PickleProblem{"an OrderedDict's item is not a pair"};
    }
    items.insert(items.end(), pair.items.begin(), pair.items.end());
  }
  return items;
}

}  // namespace

std::size_t element_bytes(ElementKind kind) {
  constexpr std::array<std::size_t, 10> kBytes = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1};
  return kBytes.at(static_cast<std::size_t>(kind));
}

void push_global(PickleStack& stack, std::string_view module, std::string_view name) {
  const auto found = std::find_if(kGlobals.begin(), kGlobals.end(), [&](const PickleGlobal& one) {
    return one.module == module && one.name == name;
  });
  if (found == kGlobals.end()) {
    const std::string place = cat(printable(module), ".", printable(name));
    if (const auto model = foreign_model(place)) {
      throw PickleProblem{cat(model->what, " (it needs ", place, ")"), model->hint};
    }
    throw PickleProblem{
        cat("the pickle asks for ", place, ", which is not allowed"),
        "only dicts of tensors are accepted: save model.state_dict() with torch.save in Python"};
  }
  stack.push_new({.kind = kGlobal, .integer = found - kGlobals.begin()});
}

void call_global(PickleStack& stack, bool as_new_object) {
  const PickleRef arguments = stack.pop(), function = stack.pop();
  if (stack.at(function).kind != kGlobal || stack.at(arguments).kind != kTuple) {
    throw PickleProblem{"the pickle calls something that is not a function"};
  }
  switch (global_at(stack.at(function).integer).kind) {
    case GlobalKind::kOrderedDict:
      return stack.push_new({.kind = kDict, .items = pairs_of(stack, arguments)});
    case GlobalKind::kRebuildTensor:
      return stack.push_new(
          {.kind = kTensor,
           .items = {argument(stack, arguments, 0, kStorage), argument(stack, arguments, 1, kInt),
                     argument(stack, arguments, 2, kTuple),
                     argument(stack, arguments, 3, kTuple)}});
    case GlobalKind::kWrapTensor:
      // PyTorch 0.1 made an empty Parameter and gave it its tensor with BUILD.
      if (as_new_object && stack.at(arguments).items.empty()) {
        return stack.push_new({.kind = kShell});
      }
      return stack.push(argument(stack, arguments, 0, kTensor));
    case GlobalKind::kTuple:
      return stack.push(argument(stack, arguments, 0, kTuple));
    case GlobalKind::kInert:
      return stack.push_new({.kind = kInert});
    case GlobalKind::kStorage:
      break;
  }
  throw PickleProblem{"the pickle calls a storage type"};
}

// Applies BUILD: only the state of an empty Parameter holds a tensor of a state dict.
void apply_state(PickleStack& stack) {
  const PickleRef state = stack.pop(), target = stack.top();
  if (stack.at(target).kind != kShell) return;
  if (stack.at(state).kind != kTuple) throw PickleProblem{"a Parameter's state is not a tuple"};
  PickleValue tensor = stack.at(argument(stack, state, 0, kTensor));
  stack.spend(tensor.items.size());
  stack.at(target) = std::move(tensor);
}

// Pushes a storage; its id is ('storage', type, key, location, elements[, view]).
void push_storage(PickleStack& stack) {
  const PickleRef id = stack.pop();
  if (stack.at(id).kind != kTuple || stack.at(argument(stack, id, 0, kText)).text != "storage") {
    throw PickleProblem{"a persistent id in the pickle is not a storage"};
  }
  const PickleGlobal& type = global_at(stack.at(argument(stack, id, 1, kGlobal)).integer);
  if (type.kind != GlobalKind::kStorage) {
    throw PickleProblem{cat("a storage has the type ", type.module, ".", type.name)};
  }
  const std::vector<PickleRef>& items = stack.at(id).items;
  if (items.size() > 5 && stack.at(items[5]).kind != kNone) {
    throw PickleProblem{"a storage is a view of another, as PyTorch before 0.4 wrote them",
                        "load the file in Python and save it again"};
  }
  stack.push_new({.kind = kStorage,
                  .element = type.element,
                  .integer = stack.at(argument(stack, id, 4, kInt)).integer,
                  .text = stack.at(argument(stack, id, 2, kText)).text});
}

}  // namespace retina
