// Greedy non-maximum suppression (shared/ops/nms.h) as TorchScript. A loop over boxes costs 50 to
// 400 ms in script. Here boxes come in blocks: inside a block "kept unless a kept better one
// overlaps" is iterated as a whole until it no longer changes, which is the greedy answer because
// box i depends on better boxes alone; and it ends as soon as enough are kept.
#include "convert/script/script_part.h"

namespace retina {
namespace {

// ScalarType 7 is f64: the reference compares in f64, an f32 threshold would sit elsewhere.
constexpr const char* kOverlaps =
    R"(def overlaps(self, a: Tensor, a_labels: Tensor, b: Tensor, b_labels: Tensor,
             nms_threshold: float) -> Tensor:
    a_area = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    b_area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    low = torch.max(a[:, :2].unsqueeze(1), b[:, :2].unsqueeze(0))
    high = torch.min(a[:, 2:].unsqueeze(1), b[:, 2:].unsqueeze(0))
    size = torch.clamp(high - low, min=0.0)
    both = size[:, :, 0] * size[:, :, 1]
    iou = both / (a_area.unsqueeze(1) + b_area.unsqueeze(0) - both)
    same = a_labels.unsqueeze(1) == b_labels.unsqueeze(0)
    return torch.logical_and(iou.to(7) > nms_threshold, same)
)";

// Up to 1,000 boxes on the CPU the reference keeps classes apart by shifting them, whose rounding
// can tip an IoU that lies on the threshold: so the same is done here.
constexpr const char* kSuppress =
    R"(def forward(self, boxes: Tensor, scores: Tensor, labels: Tensor, nms_threshold: float,
            max_detections: int) -> Tensor:
    count = boxes.size(0)
    order = torch.sort(scores, stable=True, dim=0, descending=True)[1]
    boxes = boxes[order]
    labels = labels[order]
    if count > 0 and count <= 1000 and not boxes.is_cuda:
        boxes = boxes + (labels.to(6) * (boxes.max() + 1.0)).unsqueeze(1)
        labels = torch.zeros_like(labels)
    kept = order[:0]
    start = 0
    while start < count and kept.size(0) < max_detections:
        end = min(start + 256, count)
        block = boxes[start:end]
        block_labels = labels[start:end]
        lost = torch.any(
            self.overlaps(boxes[kept], labels[kept], block, block_labels, nms_threshold), dim=0)
        free = torch.logical_not(lost)
        rivals = torch.triu(
            self.overlaps(block, block_labels, block, block_labels, nms_threshold), 1)
        keep = free
        settled = False
        while not settled:
            beaten = torch.any(torch.logical_and(rivals, keep.unsqueeze(1)), dim=0)
            better = torch.logical_and(free, torch.logical_not(beaten))
            settled = torch.equal(better, keep)
            keep = better
        kept = torch.cat([kept, torch.nonzero(keep).squeeze(1) + start])
        start = end
    return order[kept[:max_detections]]
)";

}  // namespace

ScriptPart suppression_script() {
  return {.name = "suppression", .source = std::string(kOverlaps) + "\n" + kSuppress};
}

}  // namespace retina
