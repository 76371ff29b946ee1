#include "convert/onnx/onnx_model.h"

#include "shared/base/cat.h"

namespace retina {
namespace {

// The graph's input, and its sizes.
struct Pictures {
  Value images;
  Ints count, size;
};

Pictures picture_input(OnnxGraph& graph, const OnnxForm& form) {
  const std::optional<PixelSize>& fixed = form.picture;
  const Value images =
      graph.input("images", ElementType::kUint8,
                  {"N", "3", fixed ? cat(fixed->height) : "H", fixed ? cat(fixed->width) : "W"});
  graph.enter("sizes");
  const auto sizes = [&](std::int64_t begin, std::int64_t end) {
    return graph.computed(graph.node("Shape", {images}, {{"start", begin}, {"end", end}}));
  };
  return {.images = images,
          .count = sizes(0, 1),
          .size = fixed ? graph.known({fixed->height, fixed->width}) : sizes(2, 4)};
}

OnnxModel finished(const OnnxGraph& graph, const OnnxRequest& request, const std::string& name,
                   const std::string& description) {
  return {.bytes = graph.finish(name, description, request.metadata),
          .rounded_values = graph.rounded_values()};
}

}  // namespace

OnnxModel onnx_detector(const ModelConfig& config, const NetworkArrays& arrays,
                        const std::string& body_prefix, const PostprocessOptions& postprocess,
                        const OnnxRequest& request) {
  OnnxGraph graph(request.form.weights, request.ranges);
  const Pictures pictures = picture_input(graph, request.form);
  const NetworkInput input =
      detector_input(graph, pictures.images, pictures.count, pictures.size, config);
  const HeadValues outputs =
      heads(graph, config, arrays,
            pyramid(graph, config, arrays, body(graph, config, arrays, body_prefix, input.pixels)));
  if (request.form.postprocess) {
    const DetectionValues found = detections(graph, config, postprocess, outputs, input.sizes);
    const std::string limit = cat(postprocess.max_detections);
    graph.output(found.boxes, "boxes", ElementType::kFloat, {"N", limit, "4"});
    graph.output(found.scores, "scores", ElementType::kFloat, {"N", limit});
    graph.output(found.labels, "labels", ElementType::kInt64, {"N", limit});
    graph.output(found.counts, "counts", ElementType::kInt64, {"N"});
  } else {
    const AnchorValues found = all_anchors(graph, config, outputs, input.sizes);
    graph.output(found.boxes, "boxes", ElementType::kFloat, {"N", "A", "4"});
    graph.output(found.scores, "scores", ElementType::kFloat, {"N", "A", cat(config.class_count)});
  }
  return finished(graph, request, "RetinaNet",
                  cat("RetinaNet with ", config.backbone, ", ", config.class_count,
                      " classes: u8 RGB images of any size in, ", "boxes in their pixels out"));
}

OnnxModel onnx_classifier(const ModelConfig& config, const NetworkArrays& arrays,
                          const OnnxRequest& request) {
  OnnxGraph graph(request.form.weights, request.ranges);
  const Pictures pictures = picture_input(graph, request.form);
  const Value logits = classifier_logits(
      graph, config, arrays, square_input(graph, pictures.images, pictures.size, config));
  const Value probabilities = graph.node("Softmax", {logits}, {{"axis", std::int64_t{1}}});
  const OnnxGraph::Shape shape = {"N", cat(config.class_count)};
  graph.output(probabilities, "probabilities", ElementType::kFloat, shape);
  graph.output(logits, "logits", ElementType::kFloat, shape);
  return finished(graph, request, "Classifier",
                  cat(config.backbone, ", ", config.class_count,
                      " classes: u8 RGB images of any size in, probabilities out"));
}

}  // namespace retina
