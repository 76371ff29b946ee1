#include "shared/checkpoint/foreign/pickle_stack.h"

#include <limits>
#include <utility>

#include "shared/base/cat.h"

namespace retina {
namespace {

constexpr PickleRef kNoValue = std::numeric_limits<PickleRef>::max();

}  // namespace

void PickleStack::spend(std::size_t count) {
  if (count > limits_.max_values - spent_) {
    throw PickleProblem{cat("too many values (want at most ", limits_.max_values, ")")};
  }
  spent_ += count;
}

void PickleStack::push(PickleRef ref) {
  spend(1);
  stack_.push_back(ref);
}

void PickleStack::push_new(PickleValue made) {
  spend(1);
  document_.values.push_back(std::move(made));
  push(static_cast<PickleRef>(document_.values.size() - 1));
}

PickleRef PickleStack::top() const {
  if (stack_.size() <= floor()) throw PickleProblem{"the pickle takes from an empty stack"};
  return stack_.back();
}

PickleRef PickleStack::pop() {
  const PickleRef taken = top();
  stack_.pop_back();
  return taken;
}

void PickleStack::open_bracket() {
  if (brackets_.size() >= limits_.max_brackets) {
    throw PickleProblem{
        cat("the pickle's brackets nest too deep (want at most ", limits_.max_brackets, ")")};
  }
  brackets_.push_back(stack_.size());
}

std::vector<PickleRef> PickleStack::close_bracket() {
  if (brackets_.empty()) throw PickleProblem{"the pickle closes a bracket that is not open"};
  std::vector<PickleRef> items(stack_.begin() + static_cast<std::ptrdiff_t>(brackets_.back()),
                               stack_.end());
  stack_.resize(brackets_.back());
  brackets_.pop_back();
  return items;
}

void PickleStack::push_tuple(std::size_t count) {
  std::vector<PickleRef> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  push_new({.kind = PickleKind::kTuple, .items = std::move(items)});
}

void PickleStack::append(const std::vector<PickleRef>& items, PickleKind kind) {
  PickleValue& target = at(top());
  if (target.kind == PickleKind::kInert) return;
  if (target.kind != kind) throw PickleProblem{"the pickle adds items to a value that takes none"};
  if (kind == PickleKind::kDict && items.size() % 2 != 0) {
    throw PickleProblem{"the pickle has a key without a value"};
  }
  target.items.insert(target.items.end(), items.begin(), items.end());
}

void PickleStack::memoize(std::uint64_t place, std::size_t most) {
  if (place >= limits_.max_values || place > most) {
    throw PickleProblem{cat("memo place ", place, " is out of range")};
  }
  const auto index = static_cast<std::size_t>(place);
  if (index >= memo_.size()) memo_.resize(index + 1, kNoValue);
  memo_[index] = top();
}

void PickleStack::recall(std::uint64_t place) {
  if (place >= memo_.size() || memo_[static_cast<std::size_t>(place)] == kNoValue) {
    throw PickleProblem{cat("memo place ", place, " was never filled")};
  }
  push(memo_[static_cast<std::size_t>(place)]);
}

PickleDocument PickleStack::finish() {
  if (!brackets_.empty() || stack_.size() != 1) {
    throw PickleProblem{cat("the pickle ends with ", stack_.size(), " values (want 1)")};
  }
  document_.root = stack_.back();
  return std::move(document_);
}

}  // namespace retina
