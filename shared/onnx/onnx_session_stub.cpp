// The sessions of a build without OpenVINO.
#include "shared/base/error.h"
#include "shared/onnx/onnx_session.h"

namespace retina {

bool has_onnx_runtime() {
  return false;
}

void require_onnx_runtime(const std::string& subject) {
  throw Error(ErrorKind::kUnavailable, cat(subject, ": this build cannot run ONNX models"),
              "build where OpenVINO's wheel is installed (make deps), or evaluate the checkpoint");
}

std::unique_ptr<OnnxSession> open_onnx_session(const std::string&, const std::string& subject, int,
                                               const std::vector<std::string>&) {
  require_onnx_runtime(subject);
  return nullptr;
}

}  // namespace retina
