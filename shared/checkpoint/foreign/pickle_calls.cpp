// Stands in for Python's calls: each allowed name gives plain data, all others are refused.
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/foreign/pickle_globals.h"
#include "shared/checkpoint/foreign/pickle_stack.h"

namespace retina {
namespace {

using enum PickleKind;

// Argument `index` of the tuple `arguments`, which must be of `kind`.
PickleRef argument(PickleStack& stack, PickleRef arguments, std::size_t index, PickleKind kind) {
  const std::vector<PickleRef>& items = stack.at(arguments).items;
  if (index >= items.size() || stack.at(items[index]).kind != kind) {
    throw PickleProblem{"a call in the pickle has different arguments from PyTorch's"};
  }
  return items[index];
}

// Content of an OrderedDict: Python 2 gave it as one list of [key, value] lists.
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

void push_global(PickleStack& stack, std::string_view module, std::string_view name) {
  const auto found = find_global(module, name);
  if (!found) {
    throw PickleProblem{
        cat("the pickle asks for ", printable(module), ".", printable(name),
            ", which is not allowed"),
        "only dicts of tensors are accepted: save model.state_dict() with torch.save in Python"};
  }
  stack.push_new({.kind = kGlobal, .integer = *found});
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

// The state of anything but an empty Parameter holds no tensor of a state dict.
void apply_state(PickleStack& stack) {
  const PickleRef state = stack.pop(), target = stack.top();
  if (stack.at(target).kind != kShell) return;
  if (stack.at(state).kind != kTuple) throw PickleProblem{"a Parameter's state is not a tuple"};
  PickleValue tensor = stack.at(argument(stack, state, 0, kTensor));
  stack.spend(tensor.items.size());
  stack.at(target) = std::move(tensor);
}

// The id is ('storage', type, key, location, elements[, view]).
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
