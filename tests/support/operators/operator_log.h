// Which of LibTorch's operators ran, how often, and how large their results were.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace retina {

struct OperatorCalls {
  std::int64_t count = 0;
  std::int64_t largest = 0;  // elements of its largest result
};

// Logs the operators of all threads while it lives; one at a time.
class OperatorLog {
 public:
  OperatorLog();
  ~OperatorLog();
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  // By name: "aten::cat". An operator that never ran has no calls. What convolutions do inside is
  // their library's matter and left out.
  OperatorCalls of(const std::string& name) const;
  std::map<std::string, OperatorCalls> all() const;

 private:
  std::uint64_t handle_;
};

}  // namespace retina
