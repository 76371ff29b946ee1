#include "tests/support/operators/operator_log.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace retina {
namespace {

std::mutex mutex;
std::map<std::string, OperatorCalls> calls;

std::int64_t largest_of(const std::vector<c10::IValue>& values) {
  std::int64_t largest = 0;
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) {
      largest = std::max(largest, value.toTensor().numel());
    }
  }
  return largest;
}

bool is_convolution(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  return name == "aten::convolution" || name == "aten::convolution_backward";
}

// How many convolutions this thread is in.
thread_local int depth = 0;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (is_convolution(function)) ++depth;
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext*) {
  if (is_convolution(function)) --depth;
  if (depth > 0) return;
  const std::lock_guard lock(mutex);
  OperatorCalls& own = calls[function.name()];
  ++own.count;
  own.largest = std::max(own.largest, largest_of(function.outputs()));
}

}  // namespace

OperatorLog::OperatorLog() {
  calls.clear();
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                                      .scopes({at::RecordScope::FUNCTION})
                                      .needsOutputs(true));
}

OperatorLog::~OperatorLog() {
  at::removeCallback(handle_);
}

OperatorCalls OperatorLog::of(const std::string& name) const {
  const std::lock_guard lock(mutex);
  const auto found = calls.find(name);
  return found == calls.end() ? OperatorCalls{} : found->second;
}

std::map<std::string, OperatorCalls> OperatorLog::all() const {
  const std::lock_guard lock(mutex);
  return calls;
}

}  // namespace retina
