// The inference model's own methods, which join its parts (script_part.h) and equal
// shared/model/postprocess.cpp.
#include "convert/script/script_part.h"
#include "shared/anchor/anchor.h"
#include "shared/base/cat.h"

namespace retina {
namespace {

constexpr const char* kOutputs =
    R"(def outputs(self, images: Tensor) -> Tuple[List[Tensor], List[Tensor]]:
    size = self.input.resized_size(images.size(2), images.size(3))
    c3, c4, c5 = self.body.forward(self.input.forward(images, size))
    pyramid = self.pyramid.forward(c3, c4, c5)
    return self.classification.forward(pyramid), self.regression.forward(pyramid)
)";

// @MAX_LOG_SIZE@ is kMaxLogSize.
constexpr const char* kDecode =
    R"(def decode(self, deltas: Tensor, anchors: Tensor, height: int, width: int) -> Tensor:
    size = anchors[:, 2:] - anchors[:, :2]
    centre = deltas[:, :2] * size + (anchors[:, :2] + 0.5 * size)
    half = 0.5 * (torch.exp(torch.clamp(deltas[:, 2:], max=@MAX_LOG_SIZE@)) * size)
    low = centre - half
    high = centre + half
    x = torch.clamp(torch.stack([low[:, 0], high[:, 0]], 1), min=0.0, max=float(width))
    y = torch.clamp(torch.stack([low[:, 1], high[:, 1]], 1), min=0.0, max=float(height))
    return torch.stack([x, y], 2).reshape([-1, 4])
)";

// @CLASSES@ and @CANDIDATES@ are the model's class count and the candidates kept per level.
constexpr const char* kDetect =
    R"(def detect(self, logits: List[Tensor], deltas: List[Tensor], anchors: List[Tensor], image: int,
           height: int, width: int) -> Tuple[Tensor, Tensor, Tensor]:
    all_boxes: List[Tensor] = []
    all_scores: List[Tensor] = []
    all_labels: List[Tensor] = []
    for level in range(len(logits)):
        scores = torch.sigmoid(logits[level][image]).flatten()
        passing = torch.nonzero(scores > self.score_threshold).squeeze(1)
        best, order = torch.topk(scores[passing], min(@CANDIDATES@, passing.size(0)))
        places = passing[order]
        rows = torch.div(places, @CLASSES@, rounding_mode="floor")
        all_boxes.append(
            self.decode(deltas[level][image][rows], anchors[level][rows], height, width))
        all_scores.append(best)
        all_labels.append(torch.remainder(places, @CLASSES@))
    boxes = torch.cat(all_boxes)
    scores = torch.cat(all_scores)
    labels = torch.cat(all_labels)
    kept = self.suppression.forward(
        boxes, scores, labels, self.nms_threshold, self.max_detections)
    return boxes[kept], scores[kept], labels[kept]
)";

// ScalarTypes: 4 i64, 6 f32. @CHECKS@ is image_checks(). Boxes go back to input pixels per axis, in
// f32.
constexpr const char* kModelForward =
    R"(def forward(self, images: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
@CHECKS@    count = images.size(0)
    device = images.device
    size = self.input.resized_size(images.size(2), images.size(3))
    logits, deltas = self.outputs(images)
    padded_height = (size[0] + @PAD@ - 1) // @PAD@ * @PAD@
    padded_width = (size[1] + @PAD@ - 1) // @PAD@ * @PAD@
    anchors = self.anchors.forward(padded_height, padded_width)
    original = torch.tensor([images.size(3), images.size(2)], dtype=6, device=device)
    resized = torch.tensor([size[1], size[0]], dtype=6, device=device)
    ratio = (original / resized).repeat([2])
    boxes = torch.zeros([count, self.max_detections, 4], dtype=6, device=device)
    scores = torch.zeros([count, self.max_detections], dtype=6, device=device)
    labels = torch.zeros([count, self.max_detections], dtype=4, device=device)
    counts = torch.zeros([count], dtype=4, device=device)
    for image in range(count):
        best_boxes, best_scores, best_labels = self.detect(
            logits, deltas, anchors, image, size[0], size[1])
        found = best_scores.size(0)
        boxes[image, :found] = best_boxes * ratio
        scores[image, :found] = best_scores
        labels[image, :found] = best_labels
        counts[image] = found
    return boxes, scores, labels, counts
)";

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::string image_checks() {
  // ScalarType 0 is uint8.
  return R"(    assert images.dtype == 0, "images must be uint8"
    assert images.dim() == 4, "images must be [N, 3, H, W]"
    assert images.size(1) == 3, "images must be RGB: [N, 3, H, W]"
    assert images.size(0) > 0, "images must be at least one"
    assert images.size(2) > 0 and images.size(3) > 0, "images must have pixels"
)";
}

std::string model_source(const ModelConfig& config, const PostprocessOptions& options) {
  std::string source = cat(kOutputs, "\n", kDecode, "\n", kDetect, "\n", kModelForward);
  source = replace_all(source, "@CHECKS@", image_checks());
  source = replace_all(source, "@MAX_LOG_SIZE@", shortest(kMaxLogSize));
  source = replace_all(source, "@CLASSES@", std::to_string(config.class_count));
  source = replace_all(source, "@CANDIDATES@", std::to_string(options.candidates_per_level));
  return replace_all(source, "@PAD@", std::to_string(kPadMultiplePx));
}

}  // namespace retina
