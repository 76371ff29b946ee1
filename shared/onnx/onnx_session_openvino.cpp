#include <new>
#include <openvino/openvino.hpp>

#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/onnx/onnx_session.h"

namespace retina {
namespace {

constexpr const char* kConvertAgain =
    "convert the checkpoint again with this version's retina-convert";

// Calls `use`; an exception of the runtime becomes kData with its reason.
template <class Use>
auto with_reason(const std::string& subject, const char* problem, const Use& use) {
  try {
    return use();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kData,
                cat(subject, ": ", problem, " (", library_reason(error.what()), ")"),
                kConvertAgain);
  }
}

class OpenVinoSession : public OnnxSession {
 public:
  OpenVinoSession(const std::string& model, std::string subject, int thread_count,
                  const std::vector<std::string>& more_outputs)
      : subject_(std::move(subject)) {
    with_reason(subject_, "OpenVINO cannot load it", [&] {
      static ov::Core core;
      const std::shared_ptr<ov::Model> read = core.read_model(model, ov::Tensor());
      for (const std::string& name : more_outputs) read->add_output(name);
      model_ = core.compile_model(read, "CPU", ov::inference_num_threads(thread_count),
                                  ov::hint::inference_precision(ov::element::f32),
                                  ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY));
      request_ = model_.create_infer_request();
    });
  }

  std::vector<OnnxOutput> run(const OnnxImages& images) override {
    const auto size = [](std::int64_t number) { return static_cast<std::size_t>(number); };
    return with_reason(subject_, "OpenVINO cannot run it", [&] {
      const ov::Shape shape{size(images.count), 3, size(images.height), size(images.width)};
      // The runtime only reads the pixels.
      request_.set_input_tensor(
          ov::Tensor(ov::element::u8, shape, const_cast<std::uint8_t*>(images.pixels)));
      request_.infer();
      std::vector<OnnxOutput> outputs;
      for (std::size_t place = 0; place < model_.outputs().size(); ++place) {
        outputs.push_back(output(place));
      }
      return outputs;
    });
  }

 private:
  OnnxOutput output(std::size_t place) {
    const ov::Tensor tensor = request_.get_output_tensor(place);
    const auto& names = model_.output(place).get_names();
    OnnxOutput output{.names = {names.begin(), names.end()},
                      .is_float = tensor.get_element_type() == ov::element::f32,
                      .data = tensor.data()};
    for (const std::size_t side : tensor.get_shape()) {
      output.shape.push_back(static_cast<std::int64_t>(side));
    }
    if (!output.is_float && tensor.get_element_type() != ov::element::i64) {
      throw Error(
          ErrorKind::kData,
          cat(subject_, ": its output ", output.names.empty() ? "" : output.names.front(),
              " has the type ", tensor.get_element_type().to_string(), " (want f32 or i64)"),
          kConvertAgain);
    }
    return output;
  }

  std::string subject_;
  ov::CompiledModel model_{};
  ov::InferRequest request_{};
};

}  // namespace

bool has_onnx_runtime() {
  return true;
}

void require_onnx_runtime(const std::string&) {}

std::unique_ptr<OnnxSession> open_onnx_session(const std::string& model, const std::string& subject,
                                               int thread_count,
                                               const std::vector<std::string>& more_outputs) {
  return std::make_unique<OpenVinoSession>(model, subject, thread_count, more_outputs);
}

}  // namespace retina
