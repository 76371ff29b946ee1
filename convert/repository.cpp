#include "convert/repository.h"

#include <algorithm>
#include <optional>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The parts of a service that depend on the task.
struct Service {
  int max_batch_images;        // enough to fill a GPU, few enough for a small one
  std::string triton_outputs;  // outputs of Triton's config, with a comment
  std::string outputs;         // outputs of MLServer's runtime, in jobs/serving: JSON
};

// Returns a detector's service. Every tensor begins with the batch; Triton has no empty dims, so
// clients get the counts [N] as [N, 1]. MLServer's shapes: N JPEGs, the largest number of
// detections of one of them.
Service detector_service(const InferenceHeader& header) {
  const int detections = header.max_detections;
  return {
      .max_batch_images = 8,  // images of 800 x 1333 px
      .triton_outputs = cat(
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
      .outputs = R"(
    {"name": "boxes", "datatype": "FP32", "shape": [-1, -1, 4]},
    {"name": "scores", "datatype": "FP32", "shape": [-1, -1]},
    {"name": "labels", "datatype": "INT64", "shape": [-1, -1]},
    {"name": "category_ids", "datatype": "INT64", "shape": [-1, -1]},
    {"name": "category_names", "datatype": "BYTES", "shape": [-1, -1], "parameters": {"content_type": "str"}},
    {"name": "counts", "datatype": "INT64", "shape": [-1]})"};
}

// Returns a classifier's service. MLServer's shapes: N JPEGs, and the best of the classes.
Service classifier_service(const InferenceHeader& header) {
  const std::size_t classes = header.categories.size();
  return {
      .max_batch_images = 64,  // images of 224 x 224 px
      .triton_outputs = cat(
          R"(# Of each class (line of labels.txt, from 0): its probability, and the score before softmax.
output [
  { name: "probabilities" data_type: TYPE_FP32 dims: [ )",
          classes, R"( ] },
  { name: "logits" data_type: TYPE_FP32 dims: [ )",
          classes, R"( ] }
]
)"),
      .outputs = R"(
    {"name": "scores", "datatype": "FP32", "shape": [-1, -1]},
    {"name": "labels", "datatype": "INT64", "shape": [-1, -1]},
    {"name": "category_ids", "datatype": "INT64", "shape": [-1, -1]},
    {"name": "category_names", "datatype": "BYTES", "shape": [-1, -1], "parameters": {"content_type": "str"}})"};
}

// Returns Triton's ModelConfig in protobuf's text format.
std::string triton_config(const std::string& name, const Service& service,
                          const std::optional<PixelSize>& size) {
  const std::string sides = size ? cat(size->height, ", ", size->width) : "-1, -1";
  return cat("name: \"", name, R"("
backend: "onnxruntime"
platform: "onnxruntime_onnx"
max_batch_size: )",
             service.max_batch_images,
             size ? "\n# RGB, all of this height and width.\n"
                  : "\n# RGB, any height and width; requests of equal size share a batch.\n",
             R"(input [
  { name: "images" data_type: TYPE_UINT8 dims: [ 3, )",
             sides, R"( ] }
]
)",
             service.triton_outputs, R"(dynamic_batching { }
# On the GPU where there is one.
instance_group [ { count: 1 kind: KIND_AUTO } ]
version_policy: { latest: { num_versions: 1 } }
# For engines of TensorRT inside ONNX Runtime; one is built, within minutes, for each new size of image:
# optimization { execution_accelerators { gpu_execution_accelerator: [ { name: "tensorrt" } ] } }
)");
}

// Returns model-settings.json; its schema is the contract with the runtime in jobs/serving. `name`
// needs no escapes.
std::string mlserver_settings(const std::string& name, const Service& service) {
  return cat(R"({
  "name": ")",
             name, R"(",
  "implementation": "retina_model.RetinaModel",
  "platform": "onnxruntime_onnx",
  "versions": ["1"],
  "parameters": {"uri": "./1/model.onnx", "version": "1"},
  "inputs": [
    {"name": "image", "datatype": "BYTES", "shape": [-1], "parameters": {"content_type": "base64"}}
  ],
  "outputs": [)",
             service.outputs, R"(
  ]
}
)");
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
  return path_exists(b) && !is_folder(b) && xxh3_file(a) == xxh3_file(b);
}

}  // namespace

ModelRepository::ModelRepository(const std::string& folder, std::string service_name)
    : parent_(folder), name_(std::move(service_name)), folder_(parent_ + "/" + name_) {}

std::vector<ModelRepository::TextFile> ModelRepository::text_files(
    const InferenceHeader& header) const {
  const Service service =
      header.task == Task::kDetection ? detector_service(header) : classifier_service(header);
  // MLServer loads a model when it finds the last file.
  return {{folder_ + "/labels.txt", labels_text(header)},
          {folder_ + "/config.pbtxt", triton_config(name_, service, header.form.image)},
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
  make_folder(folder_ + "/1", "--repository");
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
