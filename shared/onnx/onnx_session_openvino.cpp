#include <openvino/openvino.hpp>

#include "shared/base/error.h"
#include "shared/base/library_words.h"
#include "shared/onnx/onnx_session.h"

namespace retina {
namespace {

[[noreturn]] void fail(const std::string& subject, const std::string& problem,
                       const std::exception& error) {
  throw Error(ErrorKind::kData,
              cat(subject, ": ", problem, " (", library_reason(error.what()), ")"),
              "convert the checkpoint again with this version's retina-convert");
}

}  // namespace

struct OnnxSession::State {
  std::string subject;
  ov::CompiledModel model;
  ov::InferRequest request;
};

bool has_onnx_runtime() {
  return true;
}

void require_onnx_runtime(const std::string&) {}

OnnxSession::OnnxSession(const std::string& model, const std::string& subject, int thread_count,
                         const std::vector<std::string>& more_outputs)
    : state_(std::make_unique<State>()) {
  state_->subject = subject;
  try {
    static ov::Core core;
    const std::shared_ptr<ov::Model> read = core.read_model(model, ov::Tensor());
    for (const std::string& name : more_outputs) read->add_output(name);
    state_->model =
        core.compile_model(read, "CPU", ov::inference_num_threads(thread_count),
                           ov::hint::inference_precision(ov::element::f32),
                           ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY));
    state_->request = state_->model.create_infer_request();
  } catch (const ov::Exception& error) {
    fail(subject, "OpenVINO cannot load it", error);
  }
}

OnnxSession::~OnnxSession() = default;
OnnxSession::OnnxSession(OnnxSession&&) noexcept = default;
OnnxSession& OnnxSession::operator=(OnnxSession&&) noexcept = default;

std::vector<OnnxOutput> OnnxSession::run(const OnnxImages& images) {
  const auto size = [](std::int64_t number) { return static_cast<std::size_t>(number); };
  std::vector<OnnxOutput> outputs;
  try {
    const ov::Shape shape{size(images.count), 3, size(images.height), size(images.width)};
    // It only reads them.
    state_->request.set_input_tensor(
        ov::Tensor(ov::element::u8, shape, const_cast<std::uint8_t*>(images.pixels)));
    state_->request.infer();
    for (std::size_t place = 0; place < state_->model.outputs().size(); ++place) {
      const ov::Tensor tensor = state_->request.get_output_tensor(place);
      const auto& names = state_->model.output(place).get_names();
      OnnxOutput output{.names = {names.begin(), names.end()},
                        .is_float = tensor.get_element_type() == ov::element::f32,
                        .data = tensor.data()};
      for (const std::size_t side : tensor.get_shape()) {
        output.shape.push_back(static_cast<std::int64_t>(side));
      }
      RETINA_CHECK(output.is_float || tensor.get_element_type() == ov::element::i64);
      outputs.push_back(std::move(output));
    }
  } catch (const ov::Exception& error) {
    fail(state_->subject, "OpenVINO cannot run it", error);
  }
  return outputs;
}

}  // namespace retina
