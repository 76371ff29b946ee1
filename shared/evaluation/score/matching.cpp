#include "shared/evaluation/score/matching.h"

#include <algorithm>

#include "shared/base/memory.h"
#include "shared/base/parallel.h"

namespace retina {

std::array<double, kIouThresholdCount> coco_iou_thresholds() {
  // numpy.linspace: start + i * step, the last value set to the end itself.
  std::array<double, kIouThresholdCount> values{};
  const double step = (.95 - .5) / 9.0;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) * step + .5;
  values.back() = .95;
  return values;
}

namespace {

// Matches image after image, keeping its buffers.
class ImageMatcher {
 public:
  explicit ImageMatcher(const BoxGroups& boxes)
      : boxes_(boxes), class_ranks_(boxes.class_count(), 0) {}

  // Matches one image; writes to the slots of `image`.
  void match(std::size_t image, std::vector<Match>& matches) {
    look_at_objects(image);
    const std::uint32_t begin = boxes_.found_begin[image], end = boxes_.found_begin[image + 1];
    for (std::uint32_t slot = begin; slot < end; ++slot) {
      const std::uint32_t label = boxes_.label[slot];
      Match& match = matches[slot];
      match.rank = class_ranks_[label]++;
      if (match.rank >= boxes_.detection_limit()) continue;
      const BoxEdges box(boxes_.detection(slot).bbox);
      find_near(box, label);
      for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
        if (!near_.empty()) choose(area, match);
        if (kCocoAreaRanges[area].has(box.area)) continue;
        match.ignored[area] |=
            static_cast<std::uint16_t>(kAllIouThresholds & ~unsigned{match.hit[area]});
      }
    }
    for (std::uint32_t slot = begin; slot < end; ++slot) class_ranks_[boxes_.label[slot]] = 0;
  }

  // Writes to the slots of the image that was matched last.
  void note_found(std::size_t image, std::vector<std::uint8_t>& found) const {
    std::transform(objects_.begin(), objects_.end(), found.begin() + boxes_.truth_begin[image],
                   [](const Object& one) -> std::uint8_t {
                     return !one.ignored[0] && !one.unmatchable && (one.taken[0] & 1) != 0;
                   });
  }

 private:
  struct Object {
    BoxEdges box;
    std::uint32_t label = 0;
    bool crowd = false;
    bool unmatchable = false;  // id 0: pycocotools reads a match with it as no match
    std::array<bool, kAreaRangeCount> ignored{};
    std::array<std::uint16_t, kAreaRangeCount> taken{};  // bits as in Match
  };
  // An object that the detection may choose.
  struct Near {
    Object* object = nullptr;
    double iou = 0;
    std::uint16_t reached = 0;  // mask of the thresholds
  };

  void look_at_objects(std::size_t image) {
    objects_.clear();
    for (std::uint32_t g = boxes_.truth_begin[image]; g < boxes_.truth_begin[image + 1]; ++g) {
      const Annotation& one = boxes_.object(g);
      Object object{.box = BoxEdges(one.bbox),
                    .label = boxes_.truth_label[g],
                    .crowd = one.iscrowd,
                    .unmatchable = one.id == 0};
      for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
        object.ignored[area] = one.iscrowd || !kCocoAreaRanges[area].has(one.area);
      }
      objects_.push_back(object);
    }
  }

  // Collects the objects that the detection may choose, the later one first.
  void find_near(const BoxEdges& box, std::uint32_t label) {
    near_.clear();
    for (std::size_t g = objects_.size(); g-- > 0;) {
      Object& object = objects_[g];
      if (object.label != label) continue;
      const double iou = box_iou(box, object.box, object.crowd);
      std::size_t count = 0;
      while (count < kIouThresholdCount && iou >= thresholds_[count]) ++count;
      if (count == 0) continue;
      near_.push_back({&object, iou, static_cast<std::uint16_t>((1U << count) - 1)});
    }
    // Most detections have at most one.
    if (near_.size() < 2) return;
    std::stable_sort(near_.begin(), near_.end(),
                     [](const Near& a, const Near& b) { return a.iou > b.iou; });
  }

  // Chooses, at each threshold, the first of near_ that is free and reached, preferring those that
  // count.
  void choose(std::size_t area, Match& match) {
    unsigned open = ~0U;
    for (const bool ignored : {false, true}) {
      for (const Near& near : near_) {
        Object& object = *near.object;
        if (object.ignored[area] != ignored) continue;
        const unsigned free = object.crowd ? ~0U : ~unsigned{object.taken[area]};
        const auto chosen = static_cast<std::uint16_t>(open & near.reached & free);
        open &= ~unsigned{chosen};
        object.taken[area] |= chosen;
        if (ignored) match.ignored[area] |= chosen;
        if (!object.unmatchable) match.hit[area] |= chosen;
      }
    }
  }

  const BoxGroups& boxes_;
  const std::array<double, kIouThresholdCount> thresholds_ = coco_iou_thresholds();
  std::vector<std::uint32_t> class_ranks_;  // [classes], 0 between images
  std::vector<Object> objects_;             // of the image
  std::vector<Near> near_;                  // of the detection
};

}  // namespace

std::vector<Match> match_detections(const BoxGroups& boxes, int thread_count,
                                    std::vector<std::uint8_t>* found) {
  std::vector<Match> matches;
  matches.reserve(boxes.entry.size());
  use_huge_pages(matches);
  matches.resize(boxes.entry.size());
  if (found != nullptr) found->assign(boxes.annotation.size(), 0);
  constexpr std::size_t kBlock = 64;
  const std::size_t image_count = boxes.image_count();
  for_each_parallel((image_count + kBlock - 1) / kBlock, thread_count, [&](std::size_t block) {
    ImageMatcher matcher(boxes);
    for (std::size_t i = block * kBlock; i < std::min(image_count, (block + 1) * kBlock); ++i) {
      matcher.match(i, matches);
      if (found != nullptr) matcher.note_found(i, *found);
    }
  });
  return matches;
}

}  // namespace retina
