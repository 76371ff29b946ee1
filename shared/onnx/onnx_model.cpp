#include "shared/onnx/onnx_model.h"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

// The graph's input, and its sizes.
struct ImageInput {
  Value images;
  Ints count, size;
};

ImageInput image_input(OnnxGraph& graph, const OnnxForm& form) {
  const std::optional<PixelSize>& fixed = form.image;
  const Value images =
      graph.input("images", TensorType::kUint8,
                  {"N", "3", fixed ? cat(fixed->height) : "H", fixed ? cat(fixed->width) : "W"});
  graph.enter("sizes");
  const auto sizes = [&](std::int64_t begin, std::int64_t end) {
    return graph.computed(graph.node("Shape", {images}, {{"start", begin}, {"end", end}}));
  };
  return {.images = images,
          .count = sizes(0, 1),
          .size = fixed ? graph.known({fixed->height, fixed->width}) : sizes(2, 4)};
}

OnnxMetadata metadata_of(const InferenceHeader& header) {
  std::string names, ids;
  for (const Category& category : header.categories) {
    names += escaped(category.name, kWholeText) + "\n";  // one line each, whatever a name holds
    ids += cat(category.id, "\n");
  }
  return {{kInferenceHeaderKey, header.to_json()}, {"names", names}, {"category_ids", ids}};
}

void add_detector(OnnxGraph& graph, const ModelConfig& config, const InferenceHeader& header,
                  const NetworkArrays& arrays) {
  const ImageInput given = image_input(graph, header.form);
  const NetworkInput input = detector_input(graph, given.images, given.count, given.size, config);
  const HeadValues outputs =
      heads(graph, config, arrays,
            pyramid(graph, config, arrays, body(graph, config, arrays, kBodyPrefix, input.pixels)));
  if (!header.form.postprocess) {
    const AnchorValues found = all_anchors(graph, config, outputs, input.sizes);
    graph.output(found.boxes, "boxes", TensorType::kFloat, {"N", "A", "4"});
    graph.output(found.scores, "scores", TensorType::kFloat, {"N", "A", cat(config.class_count)});
    return;
  }
  const PostprocessOptions options{.score_threshold = header.score_threshold,
                                   .nms_threshold = header.nms_threshold,
                                   .max_detections = header.max_detections};
  const DetectionValues found = detections(graph, config, options, outputs, input.sizes);
  const std::string limit = cat(options.max_detections);
  graph.output(found.boxes, "boxes", TensorType::kFloat, {"N", limit, "4"});
  graph.output(found.scores, "scores", TensorType::kFloat, {"N", limit});
  graph.output(found.labels, "labels", TensorType::kInt64, {"N", limit});
  graph.output(found.counts, "counts", TensorType::kInt64, {"N"});
}

void add_classifier(OnnxGraph& graph, const ModelConfig& config, const InferenceHeader& header,
                    const NetworkArrays& arrays) {
  const ImageInput given = image_input(graph, header.form);
  const Value logits = classifier_logits(graph, config, arrays,
                                         square_input(graph, given.images, given.size, config));
  const Value probabilities = graph.node("Softmax", {logits}, {{"axis", std::int64_t{1}}});
  const OnnxGraph::Shape shape = {"N", cat(config.class_count)};
  graph.output(probabilities, "probabilities", TensorType::kFloat, shape);
  graph.output(logits, "logits", TensorType::kFloat, shape);
}

// Returns the model as a message, and fills all of `made` but its bytes.
onnx::ModelProto draft(const InferenceHeader& header, const NetworkArrays& arrays,
                       const std::optional<ValueRanges>& ranges, OnnxModel& made) {
  const ModelConfig config = model_config_of(header.config_json, "the model");
  RETINA_CHECK(config.task == header.task);
  OnnxGraph graph(header.form.weights, ranges);
  const bool detects = config.task == Task::kDetection;
  (detects ? add_detector : add_classifier)(graph, config, header, arrays);
  const std::optional<PixelSize>& only = header.form.image;
  const std::string size = only ? cat(only->height, "x", only->width) : std::string("any size");
  const std::string what = cat(detects ? "RetinaNet with " : "", config.backbone, ", ",
                               config.class_count, " classes: u8 RGB images of ", size, " in, ",
                               detects ? "boxes in their pixels out" : "probabilities out");
  made.rounded_values = graph.rounded_values();
  return graph.finish(detects ? "RetinaNet" : "Classifier", what, metadata_of(header));
}

}  // namespace

OnnxModel draft_onnx_model(const InferenceHeader& header, const NetworkArrays& arrays,
                           const std::optional<ValueRanges>& ranges) {
  OnnxModel made;
  made.bytes = draft(header, arrays, ranges, made).SerializeAsString();
  return made;
}

OnnxModel write_onnx_model(const InferenceHeader& header, const NetworkArrays& arrays,
                           const ValueRanges& ranges) {
  OnnxModel made;
  const onnx::ModelProto model = draft(header, arrays, ranges, made);
  try {
    onnx::checker::check_model(model);
    onnx::ModelProto inferred = model;
    onnx::shape_inference::InferShapes(
        inferred, onnx::OpSchemaRegistry::Instance(),
        {/*check_type=*/true, /*error_mode=*/1, /*enable_data_propagation=*/true});
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInternal, cat("the ONNX graph is not valid: ", error.what()));
  }
  made.bytes = model.SerializeAsString();
  return made;
}

}  // namespace retina
