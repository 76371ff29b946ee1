#include "shared/evaluation/verdicts.h"

#include <algorithm>
#include <numeric>

#include "shared/base/cores.h"
#include "shared/base/error.h"
#include "shared/base/parallel.h"
#include "shared/evaluation/matching.h"

namespace retina {

namespace {

constexpr AreaRange kAnyArea = kCocoAreaRanges[0];

// Sorts `images` (place of each box's image, or IdPlaces::kNone) into `begin` and `order`, boxes of
// an image in ascending order.
void group_boxes(std::span<const std::uint32_t> images, std::size_t image_count, int thread_count,
                 std::vector<std::uint32_t>& begin, std::vector<std::uint32_t>& order) {
  const auto wanted = static_cast<std::size_t>(thread_count > 0 ? thread_count : usable_cores());
  const std::size_t part_count = std::clamp<std::size_t>(images.size() / 4096, 1, wanted);
  const auto part_begin = [&](std::size_t part) { return images.size() * part / part_count; };
  std::vector<std::vector<std::uint32_t>> next(part_count);
  for_each_parallel(part_count, thread_count, [&](std::size_t part) {
    next[part].assign(image_count, 0);
    for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
      if (images[i] != IdPlaces::kNone) ++next[part][images[i]];
    }
  });
  begin.assign(image_count + 1, 0);
  std::uint32_t total = 0;
  for (std::size_t image = 0; image < image_count; ++image) {
    begin[image] = total;
    for (auto& counts : next) {
      const std::uint32_t count = counts[image];
      counts[image] = total;
      total += count;
    }
  }
  begin[image_count] = total;
  order.resize(total);
  for_each_parallel(part_count, thread_count, [&](std::size_t part) {
    for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
      if (images[i] != IdPlaces::kNone) {
        order[next[part][images[i]]++] = static_cast<std::uint32_t>(i);
      }
    }
  });
}

}  // namespace

SetPlaces::SetPlaces(const Instances& truth)
    : images([&] {
        std::vector<std::int64_t> ids;
        ids.reserve(truth.images.size());
        for (const ImageInfo& image : truth.images) ids.push_back(image.id);
        return IdPlaces(ids);
      }()),
      labels([&] {
        const CategoryMap categories(truth.categories);
        std::vector<std::int64_t> ids;
        for (const Category& category : categories.all()) ids.push_back(category.id);
        return IdPlaces(ids);
      }()) {}

Verdicts group_by_image(const Instances& truth, const std::vector<Detection>& detections,
                        const SetPlaces& places, int thread_count) {
  RETINA_CHECK(std::max(detections.size(), truth.annotations.size()) < IdPlaces::kNone,
               "too many boxes");
  const auto& [images, labels] = places;
  const std::size_t image_count = truth.images.size();
  Verdicts verdicts;
  verdicts.class_count = static_cast<std::uint32_t>(truth.categories.size());
  std::vector<std::uint32_t> image_of(truth.annotations.size());
  for (std::size_t i = 0; i < image_of.size(); ++i) {
    const Annotation& one = truth.annotations[i];
    image_of[i] = images.place_of(one.image_id);
    RETINA_CHECK(
        image_of[i] != IdPlaces::kNone && labels.place_of(one.category_id) != IdPlaces::kNone,
        "annotation ", one.id, " dangles");
  }
  group_boxes(image_of, image_count, 1, verdicts.truth_begin, verdicts.annotation);
  verdicts.truth.resize(verdicts.annotation.size());
  verdicts.truth_label.resize(verdicts.annotation.size());
  for (std::size_t g = 0; g < verdicts.truth.size(); ++g) {
    const Annotation& one = truth.annotations[verdicts.annotation[g]];
    verdicts.truth_label[g] = labels.place_of(one.category_id);
    verdicts.truth[g].crowd = one.iscrowd;
    verdicts.truth[g].counts = !one.iscrowd && kAnyArea.has(one.area);
  }

  image_of.resize(detections.size());
  constexpr std::size_t kBlock = 16384;
  for_each_parallel((detections.size() + kBlock - 1) / kBlock, thread_count, [&](std::size_t b) {
    const std::size_t end = std::min(detections.size(), (b + 1) * kBlock);
    for (std::size_t i = b * kBlock; i < end; ++i) {
      image_of[i] = images.place_of(detections[i].image_id);
      if (image_of[i] == IdPlaces::kNone) {
        throw Error(ErrorKind::kData,
                    cat("detections: entry ", i, ": image id ", detections[i].image_id,
                        " is not in the annotations (they have ", image_count, " images)"),
                    "score detections against the annotations of the images they were made on");
      }
      if (labels.place_of(detections[i].category_id) == IdPlaces::kNone) {
        image_of[i] = IdPlaces::kNone;
      }
    }
  });
  group_boxes(image_of, image_count, thread_count, verdicts.image_begin, verdicts.entry);
  verdicts.label.resize(verdicts.entry.size());
  verdicts.score.resize(verdicts.entry.size());
  verdicts.detection.resize(verdicts.entry.size());
  return verdicts;
}

ImageJudge::ImageJudge(const Instances& truth, const std::vector<Detection>& detections,
                       const IdPlaces& labels, Verdicts& verdicts)
    : truth_(truth),
      detections_(detections),
      labels_(labels),
      verdicts_(verdicts),
      class_ranks_(verdicts.class_count, 0) {}

JudgedImage ImageJudge::judge(std::uint32_t image) {
  JudgedImage judged{.image = image,
                     .first = verdicts_.image_begin[image],
                     .first_truth = verdicts_.truth_begin[image]};
  judged.count = verdicts_.image_begin[image + 1] - judged.first;
  judged.truth_count = verdicts_.truth_begin[image + 1] - judged.first_truth;
  sort_detections(judged);
  look_at_truths(judged);
  measure_overlaps(judged);
  judge_as_coco(judged);
  judge_as_tide(judged);
  return judged;
}

void ImageJudge::sort_detections(const JudgedImage& image) {
  const std::uint32_t end = image.first + image.count;
  ranked_.clear();
  for (std::uint32_t slot = image.first; slot < end; ++slot) {
    const std::uint32_t entry = verdicts_.entry[slot];
    ranked_.push_back({detections_[entry].score, entry});
  }
  std::sort(ranked_.begin(), ranked_.end(), [](const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score > b.score : a.entry < b.entry;
  });
  for (std::uint32_t rank = 0; rank < image.count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    const std::uint32_t label = labels_.place_of(detections_[ranked_[rank].entry].category_id);
    verdicts_.entry[slot] = ranked_[rank].entry;
    verdicts_.score[slot] = ranked_[rank].score;
    verdicts_.label[slot] = label;
    const bool counted = class_ranks_[label]++ < kExplainedPerClass;
    verdicts_.detection[slot].coco = counted ? CocoOutcome::kWrong : CocoOutcome::kUncounted;
  }
  for (std::uint32_t slot = image.first; slot < end; ++slot)
    class_ranks_[verdicts_.label[slot]] = 0;
}

void ImageJudge::look_at_truths(const JudgedImage& image) {
  edges_.clear();
  for (std::uint32_t g = 0; g < image.truth_count; ++g) {
    const auto& box = truth_.annotations[verdicts_.annotation[image.first_truth + g]].bbox;
    edges_.push_back({box[0], box[1], box[2] + box[0], box[3] + box[1]});
  }
}

void ImageJudge::measure_overlaps(JudgedImage& image) {
  overlaps_.clear();
  overlap_begin_.assign(1, 0);
  for (std::uint32_t rank = 0; rank < image.count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    if (verdicts_.detection[slot].coco != CocoOutcome::kUncounted) {
      const auto& box = detections_[verdicts_.entry[slot]].bbox;
      const Edges found{box[0], box[1], box[2] + box[0], box[3] + box[1]};
      for (std::uint32_t g = 0; g < image.truth_count; ++g) {
        const Edges& object = edges_[g];
        // Most boxes do not meet: box_iou is for those that may.
        if ((found.left >= object.right) | (object.left >= found.right) |
            (found.top >= object.bottom) | (object.top >= found.bottom)) {
          continue;
        }
        const std::uint32_t truth = image.first_truth + g;
        const double iou = box_iou(box, truth_.annotations[verdicts_.annotation[truth]].bbox,
                                   verdicts_.truth[truth].crowd);
        if (iou > 0) overlaps_.push_back({g, iou});
      }
    }
    overlap_begin_.push_back(static_cast<std::uint32_t>(overlaps_.size()));
  }
  image.overlap_begin = overlap_begin_;
  image.overlaps = overlaps_;
}

// ImageMatcher's rule, for one threshold and area range.
void ImageJudge::judge_as_coco(const JudgedImage& image) {
  taken_.assign(image.truth_count, 0);
  for (std::uint32_t rank = 0; rank < image.count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    DetectionVerdict& verdict = verdicts_.detection[slot];
    if (verdict.coco == CocoOutcome::kUncounted) continue;
    const Overlap* best = nullptr;
    bool best_counts = false;
    for (const Overlap& overlap : image.of(rank)) {
      if (overlap.iou < kExplainedIou) continue;
      const std::uint32_t g = image.first_truth + overlap.truth;
      const TruthVerdict& object = verdicts_.truth[g];
      if (verdicts_.truth_label[g] != verdicts_.label[slot]) continue;
      if (taken_[overlap.truth] != 0 && !object.crowd) continue;
      const bool counts = object.counts;
      const bool better =
          best == nullptr || (counts != best_counts ? counts : overlap.iou >= best->iou);
      if (!better) continue;
      best = &overlap;
      best_counts = counts;
    }
    bool matched = false;
    if (best != nullptr) {
      const std::uint32_t g = image.first_truth + best->truth;
      taken_[best->truth] = 1;
      // pycocotools reads a match with id 0 as none.
      matched = truth_.annotations[verdicts_.annotation[g]].id != 0;
      if (!best_counts) {
        verdict.coco = CocoOutcome::kIgnored;
      } else if (matched) {
        verdict.coco = CocoOutcome::kHit;
        verdicts_.truth[g].coco_hit = true;
      }
    }
    const auto& box = detections_[verdicts_.entry[slot]].bbox;
    if (!matched && !kAnyArea.has(box[2] * box[3])) verdict.coco = CocoOutcome::kIgnored;
  }
}

// tidecv's TIDEExample._run and TIDERun._eval_image.
void ImageJudge::judge_as_tide(const JudgedImage& image) {
  const auto judged_count = std::min(image.count, static_cast<std::uint32_t>(kTideMaxDetections));
  const auto same_class = [&](std::uint32_t slot, const Overlap& overlap) {
    return verdicts_.truth_label[image.first_truth + overlap.truth] == verdicts_.label[slot];
  };
  const auto object_of = [&](const Overlap& overlap) -> TruthVerdict& {
    return verdicts_.truth[image.first_truth + overlap.truth];
  };

  // Hits: the free object of the class with the highest IoU, the first one of equals.
  for (std::uint32_t rank = 0; rank < judged_count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    TideOutcome& outcome = verdicts_.detection[slot].tide;
    outcome.judged = true;
    const Overlap* best = nullptr;
    bool in_crowd = false;
    for (const Overlap& overlap : image.of(rank)) {
      if (!same_class(slot, overlap)) continue;
      if (object_of(overlap).crowd) {
        in_crowd |= overlap.iou > kTideIou;
      } else if (overlap.iou >= kTideIou && !object_of(overlap).tide_hit &&
                 (best == nullptr || overlap.iou > best->iou)) {
        best = &overlap;
      }
    }
    if (best != nullptr) {
      outcome.hit = true;
      object_of(*best).tide_hit = true;
    } else {
      outcome.ignored = in_crowd;
    }
  }

  // Faults. One detection can be corrected to hit an object: the best that has it for its nearest.
  corrected_.assign(image.truth_count, 0);
  for (std::uint32_t rank = 0; rank < judged_count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    TideOutcome& outcome = verdicts_.detection[slot].tide;
    if (outcome.hit) continue;
    const Overlap *same = nullptr, *other = nullptr;
    for (const Overlap& overlap : image.of(rank)) {
      if (object_of(overlap).crowd) continue;
      const Overlap*& nearest = same_class(slot, overlap) ? same : other;
      if (nearest == nullptr || overlap.iou > nearest->iou) nearest = &overlap;
    }
    const double same_iou = same == nullptr ? 0 : same->iou;
    const double other_iou = other == nullptr ? 0 : other->iou;
    const Overlap* target = nullptr;
    if (same_iou >= kTideBackgroundIou && same_iou <= kTideIou) {
      outcome.fault = FaultKind::kLocalisation;
      target = same;
    } else if (other_iou >= kTideIou) {
      outcome.fault = FaultKind::kClassification;
      target = other;
    } else if (same_iou >= kTideIou) {
      outcome.fault = FaultKind::kDuplicate;
    } else if (std::max(same_iou, other_iou) <= kTideBackgroundIou) {
      outcome.fault = FaultKind::kBackground;
    } else {
      outcome.fault = FaultKind::kBoth;
    }
    if (target == nullptr || object_of(*target).tide_hit) continue;
    // tidecv's best score of an object begins at -1: scores of -1 and below never correct it.
    std::uint8_t& corrected = corrected_[target->truth];
    outcome.corrects = corrected != 2 && verdicts_.score[slot] > -1;
    corrected = outcome.corrects ? 2 : std::max<std::uint8_t>(corrected, 1);
    if (outcome.corrects && outcome.fault == FaultKind::kClassification) {
      moved_.push_back({.label = verdicts_.truth_label[image.first_truth + target->truth],
                        .slot = slot,
                        .score = verdicts_.score[slot]});
    }
  }
  for (std::uint32_t g = 0; g < image.truth_count; ++g) {
    TruthVerdict& object = verdicts_.truth[image.first_truth + g];
    object.tide_missed = !object.crowd && !object.tide_hit && corrected_[g] == 0;
  }
}

}  // namespace retina
