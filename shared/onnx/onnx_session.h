// Runs ONNX models on the CPU, with OpenVINO if the build found it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace retina {

// Returns true if sessions can be opened: OpenVINO was there when this was built.
bool has_onnx_runtime();
// Throws kUnavailable beginning with `subject` if they cannot be opened.
void require_onnx_runtime(const std::string& subject);

struct OnnxImages {
  const std::uint8_t* pixels = nullptr;  // [count, 3, height, width]
  std::int64_t count = 0, height = 0, width = 0;
};

struct OnnxOutput {
  std::vector<std::string> names{};  // one or more: the output's, and those of tensors equal to it
  std::vector<std::int64_t> shape{};
  bool is_float = true;        // f32, else i64
  const void* data = nullptr;  // row-major; valid until the session's next run
};

class OnnxSession {
 public:
  virtual ~OnnxSession() = default;
  // Returns the outputs in the model's order, then those of `more_outputs`. Throws kData if the
  // runtime fails, with its own reason, and for an output that is neither f32 nor i64.
  virtual std::vector<OnnxOutput> run(const OnnxImages& images) = 0;
};

// Opens a session. `model`: the file's bytes. `subject` begins the messages. All computing is in
// f32, on `thread_count` threads. `more_outputs` are names of tensors inside the graph that are
// returned, too. Throws as require_onnx_runtime, and kData if the runtime refuses the model.
std::unique_ptr<OnnxSession> open_onnx_session(const std::string& model, const std::string& subject,
                                               int thread_count,
                                               const std::vector<std::string>& more_outputs = {});

}  // namespace retina
