// Runs an ONNX model that nobody checked in a process of its own, with a limit of memory and a
// deadline: a model that crashes, hangs or fills the memory is an error message. It may still do
// what the runtime lets a model do with the user's rights.
//
// The process is the program itself, started again: its main calls isolated_main when
// is_isolated_call says so, before anything else.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "shared/onnx/onnx_session.h"

namespace retina {

struct IsolationLimits {
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  // of its data (RLIMIT_DATA)
  std::chrono::seconds deadline{60};                    // for loading, and for each run
};

// Throws as open_onnx_session, and kData where the process ends, takes longer or answers nonsense;
// so does its run.
std::unique_ptr<OnnxSession> open_isolated_session(const std::string& model,
                                                   const std::string& subject, int thread_count,
                                                   const IsolationLimits& limits = {});

// Whether the program was started to be that process.
inline bool is_isolated_call(int argc, const char* const* argv) {
  return argc > 1 && std::string_view(argv[1]) == "--isolated-onnx";
}
// Its main; returns the exit code.
int isolated_main(int argc, const char* const* argv);

}  // namespace retina
