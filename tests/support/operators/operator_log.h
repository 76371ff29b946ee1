// Which of LibTorch's operators ran, how often, how long, and how large their results were.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace retina {

struct OperatorCalls {
  std::int64_t count = 0;
  double ms = 0;             // operators that it called included
  std::int64_t largest = 0;  // elements of its largest result
};

enum class LoggedOperators {
  kAll,
  kConvolutions,  // costs the others least, so that they can be timed
};

// Logs the operators of all threads while it lives; one at a time.
class OperatorLog {
 public:
  explicit OperatorLog(LoggedOperators which = LoggedOperators::kAll);
  ~OperatorLog();
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  // By name: "aten::cat". An operator that never ran has no calls. What convolutions do inside is
  // their library's matter and left out.
  OperatorCalls of(const std::string& name) const;
  std::map<std::string, OperatorCalls> all() const;
  // In convolutions, forward and backward.
  double convolution_ms() const;

 private:
  std::uint64_t handle_;
};

}  // namespace retina
