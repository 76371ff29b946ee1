#include "convert/repository.h"

#include <algorithm>
#include <optional>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct ServedTensor {
  const char* name;
  const char* datatype;
  std::vector<int> shape;  // -1: any size
  const char* content_type;
};

// The parts of a service that depend on the task.
struct Service {
  int max_batch_images;               // enough to fill a GPU, few enough for a small one
  std::string outputs_text;           // outputs of Triton's config, with a comment
  std::vector<ServedTensor> outputs;  // outputs of MLServer's runtime, in jobs/serving
};

// Returns a detector's service. Every tensor begins with the batch; Triton has no empty dims, so
// clients get the counts [N] as [N, 1]. MLServer's shapes: N JPEGs, D the largest number of
// detections of one of them.
Service detector_service(const InferenceHeader& header) {
  const int detections = header.max_detections;
  return {
      .max_batch_images = 8,  // images of 800 x 1333 px
      .outputs_text = cat(
          R"(# Boxes (x1, y1, x2, y2 in pixels of the image), scores, labels (lines of labels.txt, from 0), and how
# many of them are there: what follows is padding.
output [
  { name: "boxes" data_type: TYPE_FP32 dims: [ )",
          detections, R"(, 4 ] },
  { name: "scores" data_type: TYPE_FP32 dims: [ )",
          detections, R"( ] },
  { name: "labels" data_type: TYPE_INT64 dims: [ )",
          detections, R"( ] },
  { name: "counts" data_type: TYPE_INT64 dims: [ 1 ] reshape: { shape: [ ] } }
]
)"),
      .outputs = {{"boxes", "FP32", {-1, -1, 4}, nullptr},
                  {"scores", "FP32", {-1, -1}, nullptr},
                  {"labels", "INT64", {-1, -1}, nullptr},
                  {"category_ids", "INT64", {-1, -1}, nullptr},
                  {"category_names", "BYTES", {-1, -1}, "str"},
                  {"counts", "INT64", {-1}, nullptr}}};
}

// Returns a classifier's service. MLServer's shapes: N JPEGs, and the best of the classes.
Service classifier_service(const InferenceHeader& header) {
  const std::size_t classes = header.categories.size();
  return {
      .max_batch_images = 64,  // images of 224 x 224 px
      .outputs_text = cat(
          R"(# Of each class (line of labels.txt, from 0): its probability, and the score before softmax.
output [
  { name: "probabilities" data_type: TYPE_FP32 dims: [ )",
          classes, R"( ] },
  { name: "logits" data_type: TYPE_FP32 dims: [ )",
          classes, R"( ] }
]
)"),
      .outputs = {{"scores", "FP32", {-1, -1}, nullptr},
                  {"labels", "INT64", {-1, -1}, nullptr},
                  {"category_ids", "INT64", {-1, -1}, nullptr},
                  {"category_names", "BYTES", {-1, -1}, "str"}}};
}

Service service_of(const InferenceHeader& header) {
  return header.task == Task::kDetection ? detector_service(header) : classifier_service(header);
}

// The parts of the config that depend on Triton's backend.
struct TritonBackend {
  const char* text;
  const char* hint;  // comments that say how to make it faster
};

constexpr TritonBackend kOnnxRuntime = {
    .text = R"(backend: "onnxruntime"
platform: "onnxruntime_onnx"
)",
    .hint =
        R"(# For engines of TensorRT inside ONNX Runtime; one is built, within minutes, for each new size of image:
# optimization { execution_accelerators { gpu_execution_accelerator: [ { name: "tensorrt" } ] } }
)"};

constexpr TritonBackend kTensorRt = {
    .text =
        R"(# tritonserver --model-config-name=tensorrt, when trtexec has made 1/model.plan of 1/model.onnx.
backend: "tensorrt"
platform: "tensorrt_plan"
)",
    .hint = ""};

// Returns Triton's ModelConfig in protobuf's text format.
std::string triton_config(const std::string& name, const Service& service,
                          const std::optional<PixelSize>& size, const TritonBackend& backend) {
  const std::string sides = size ? cat(size->height, ", ", size->width) : "-1, -1";
  return cat("name: \"", name, "\"\n", backend.text, "max_batch_size: ", service.max_batch_images,
             size ? "\n# RGB, all of this height and width.\n"
                  : "\n# RGB, any height and width; requests of equal size share a batch.\n",
             R"(input [
  { name: "images" data_type: TYPE_UINT8 dims: [ 3, )",
             sides, R"( ] }
]
)",
             service.outputs_text, R"(dynamic_batching { }
# On the GPU where there is one.
instance_group [ { count: 1 kind: KIND_AUTO } ]
version_policy: { latest: { num_versions: 1 } }
)",
             backend.hint);
}

void write_tensors(JsonWriter& writer, const char* key, const std::vector<ServedTensor>& tensors) {
  writer.key(key).begin_array();
  for (const ServedTensor& tensor : tensors) {
    writer.begin_object().field("name", tensor.name).field("datatype", tensor.datatype);
    writer.key("shape").begin_array();
    for (const int size : tensor.shape) writer.value(size);
    writer.end_array();
    if (tensor.content_type != nullptr) {
      writer.key("parameters").begin_object().field("content_type", tensor.content_type);
      writer.end_object();
    }
    writer.end_object();
  }
  writer.end_array();
}

// Returns model-settings.json; its schema is the contract with the runtime in jobs/serving.
std::string mlserver_settings(const std::string& name, const Service& service) {
  JsonWriter writer;
  writer.begin_object().field("name", name);
  writer.field("implementation", "retina_model.RetinaModel");
  writer.field("platform", "onnxruntime_onnx");
  writer.key("versions").begin_array().value("1").end_array();
  writer.key("parameters").begin_object();
  writer.field("uri", "./1/model.onnx").field("version", "1").end_object();
  write_tensors(writer, "inputs", {{"image", "BYTES", {-1}, "base64"}});
  write_tensors(writer, "outputs", service.outputs);
  return writer.end_object().pretty_text();
}

std::string labels_text(const InferenceHeader& header) {
  std::string text;
  for (const auto& category : header.categories) {
    text += escaped(category.name, kWholeText) + "\n";  // one line each, whatever a name contains
  }
  return text;
}

bool has_content(const std::string& path, const std::string& content) {
  return path_exists(path) && !is_folder(path) && read_file(path) == content;
}

bool equal_files(const std::string& a, const std::string& b) {
  return path_exists(b) && !is_folder(b) && file_size_bytes(a) == file_size_bytes(b) &&
         xxh3_file(a) == xxh3_file(b);
}

}  // namespace

ModelRepository::ModelRepository(const std::string& folder, std::string service_name)
    : parent_(folder), name_(std::move(service_name)), folder_(parent_ + "/" + name_) {}

std::vector<ModelRepository::TextFile> ModelRepository::text_files(
    const InferenceHeader& header) const {
  const Service service = service_of(header);
  // MLServer loads a model when it finds the last file.
  return {
      {folder_ + "/labels.txt", labels_text(header)},
      {folder_ + "/config.pbtxt", triton_config(name_, service, header.form.image, kOnnxRuntime)},
      {folder_ + "/configs/tensorrt.pbtxt",
       triton_config(name_, service, header.form.image, kTensorRt)},
      {folder_ + "/model-settings.json", mlserver_settings(name_, service)}};
}

void ModelRepository::prepare(const InferenceHeader& header, bool overwrite) const {
  // The model is written first, so texts without it are another program's. Another program's model
  // has been refused before.
  const bool is_ours = path_exists(model_path());
  if (!overwrite || !is_ours) {
    std::string differing;
    for (const auto& [path, content] : text_files(header)) {
      if (!path_exists(path) || has_content(path, content)) continue;
      differing += cat(differing.empty() ? "" : ", ", path.substr(folder_.size() + 1));
    }
    if (!differing.empty()) {
      throw Error(is_ours ? ErrorKind::kConfig : ErrorKind::kCannotCreate,
                  cat(folder_, ": holds something else (", differing, ")"),
                  cat("choose another --repository or --service-name",
                      is_ours ? ", or give --overwrite" : ""));
    }
  }
  make_folder(parent_, "--repository");
}

bool ModelRepository::write(const std::string& model, const InferenceHeader& header) const {
  const auto files = text_files(header);
  const bool has_model = equal_files(model, model_path());
  const bool is_complete =
      has_model && std::all_of(files.begin(), files.end(), [](const TextFile& file) {
        return has_content(file.path, file.content);
      });
  if (is_complete) return false;
  for (const char* inner : {"/1", "/configs"}) make_folder(folder_ + inner, "--repository");
  const FileLock lock(folder_ + "/model-settings.json");
  as_io_error([&] {
    if (!has_model) deliver_file(model, model_path());
    for (const auto& [path, content] : files) {
      if (!has_content(path, content)) write_file_atomically(path, content);
    }
  });
  return true;
}

bool is_service_name(const std::string& name) {
  return !name.empty() && name.size() <= 128 && is_word(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_word(c) || c == '.' || c == '-'; });
}

}  // namespace retina
