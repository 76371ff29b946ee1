// The state of a pickle being read: the values so far, the stack with its brackets, the memo, and
// the budget that bounds them all. The opcodes are in pickle_reader.cpp, calls in pickle_calls.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/checkpoint/foreign/pickle_reader.h"

namespace retina {

// A fault of a pickle; read_pickle adds the subject and the place and throws an Error.
struct PickleProblem {
  std::string text{};
  std::string hint{};
};

class PickleStack {
 public:
  explicit PickleStack(const PickleLimits& limits) : limits_(limits) {}

  PickleValue& at(PickleRef ref) { return document_.values[ref]; }

  void push(PickleRef ref);
  void push_new(PickleValue made);
  PickleRef pop();
  PickleRef top() const;

  void open_bracket();
  // Closes the last bracket and returns everything above it.
  std::vector<PickleRef> close_bracket();

  void push_tuple(std::size_t count);
  // Adds `items` to the list, dict (key, value, ...) or inert value on top.
  void append(const std::vector<PickleRef>& items, PickleKind kind);

  // Memoizes the top value. Refuses places beyond `most`: the pickle has fewer bytes.
  void memoize(std::uint64_t place, std::size_t most);
  void memoize_next(std::size_t most) { memoize(memo_.size(), most); }
  void recall(std::uint64_t place);

  // Charges copied items like values: a list used a million times must not multiply.
  void spend(std::size_t count);

  // Returns the document of the one value that is left.
  PickleDocument finish();

 private:
  std::size_t floor() const { return brackets_.empty() ? 0 : brackets_.back(); }

  const PickleLimits& limits_;
  PickleDocument document_{};
  std::vector<PickleRef> stack_{}, memo_{};
  std::vector<std::size_t> brackets_{};  // the stack's height at the opening of each
  std::size_t spent_ = 0;
};

// Replace the opcodes that would call Python. All throw PickleProblem.
void push_global(PickleStack& stack, std::string_view module, std::string_view name);
void call_global(PickleStack& stack, bool as_new_object);  // REDUCE, NEWOBJ
void apply_state(PickleStack& stack);                      // BUILD
void push_storage(PickleStack& stack);                     // BINPERSID

}  // namespace retina
