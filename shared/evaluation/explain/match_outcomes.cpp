#include "shared/evaluation/explain/match_outcomes.h"

#include <algorithm>

#include "shared/evaluation/score/matching.h"

namespace retina {

namespace {

constexpr AreaRange kAnyArea = kCocoAreaRanges[0];

}  // namespace

MatchOutcomes::MatchOutcomes(const BoxGroups& groups)
    : boxes(groups), detection(groups.entry.size()), truth(groups.annotation.size()) {
  for (std::size_t g = 0; g < truth.size(); ++g) {
    const Annotation& one = boxes.object(g);
    truth[g].crowd = one.iscrowd;
    truth[g].counts = !one.iscrowd && kAnyArea.has(one.area);
  }
}

ImageMatcher::ImageMatcher(MatchOutcomes& outcomes)
    : boxes_(outcomes.boxes), outcomes_(outcomes), class_ranks_(boxes_.class_count(), 0) {}

MatchedImage ImageMatcher::match(std::uint32_t image) {
  MatchedImage judged{
      .image = image, .first = boxes_.found_begin[image], .first_truth = boxes_.truth_begin[image]};
  judged.count = boxes_.found_begin[image + 1] - judged.first;
  judged.truth_count = boxes_.truth_begin[image + 1] - judged.first_truth;
  leave_out_the_rest(judged);
  look_at_truths(judged);
  measure_overlaps(judged);
  match_as_coco(judged);
  match_as_tide(judged);
  return judged;
}

void ImageMatcher::leave_out_the_rest(const MatchedImage& image) {
  const std::uint32_t end = image.first + image.count;
  for (std::uint32_t slot = image.first; slot < end; ++slot) {
    if (class_ranks_[boxes_.label[slot]]++ < kExplainedPerClass) {
      outcomes_.detection[slot].coco = CocoOutcome::kWrong;
    }
  }
  for (std::uint32_t slot = image.first; slot < end; ++slot) class_ranks_[boxes_.label[slot]] = 0;
}

void ImageMatcher::look_at_truths(const MatchedImage& image) {
  edges_.clear();
  for (std::uint32_t g = 0; g < image.truth_count; ++g) {
    edges_.emplace_back(boxes_.object(image.first_truth + g).bbox);
  }
}

void ImageMatcher::measure_overlaps(MatchedImage& image) {
  std::uint32_t overlap_count = 0;
  overlap_begin_.assign(1, 0);
  for (std::uint32_t rank = 0; rank < image.count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    if (outcomes_.detection[slot].coco != CocoOutcome::kUncounted) {
      const BoxEdges box(boxes_.detection(slot).bbox);
      if (overlaps_.size() < overlap_count + image.truth_count) {
        overlaps_.resize(2 * overlap_count + image.truth_count);
      }
      // Written either way, and kept where it is one: nobody can foresee which boxes meet.
      for (std::uint32_t g = 0; g < image.truth_count; ++g) {
        const double iou = box_iou(box, edges_[g], outcomes_.truth[image.first_truth + g].crowd);
        overlaps_[overlap_count] = {g, iou};
        overlap_count += iou > 0 ? 1 : 0;
      }
    }
    overlap_begin_.push_back(overlap_count);
  }
  image.overlap_begin = overlap_begin_;
  image.overlaps = std::span(overlaps_).first(overlap_count);
}

// ImageMatcher's rule, for one threshold and area range.
void ImageMatcher::match_as_coco(const MatchedImage& image) {
  taken_.assign(image.truth_count, 0);
  for (std::uint32_t rank = 0; rank < image.count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    DetectionOutcome& outcome = outcomes_.detection[slot];
    if (outcome.coco == CocoOutcome::kUncounted) continue;
    const Overlap* best = nullptr;
    bool best_counts = false;
    for (const Overlap& overlap : image.of(rank)) {
      if (overlap.iou < kExplainedIou) continue;
      const std::uint32_t g = image.first_truth + overlap.truth;
      const TruthOutcome& object = outcomes_.truth[g];
      if (boxes_.truth_label[g] != boxes_.label[slot]) continue;
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
      matched = boxes_.object(g).id != 0;
      if (!best_counts) {
        outcome.coco = CocoOutcome::kIgnored;
      } else if (matched) {
        outcome.coco = CocoOutcome::kHit;
        outcomes_.truth[g].coco_hit = true;
      }
    }
    const auto& box = boxes_.detection(slot).bbox;
    if (!matched && !kAnyArea.has(box[2] * box[3])) outcome.coco = CocoOutcome::kIgnored;
  }
}

// tidecv's TIDEExample._run and TIDERun._eval_image.
void ImageMatcher::match_as_tide(const MatchedImage& image) {
  const auto evaluated_count =
      std::min(image.count, static_cast<std::uint32_t>(kTideMaxDetections));
  const auto same_class = [&](std::uint32_t slot, const Overlap& overlap) {
    return boxes_.truth_label[image.first_truth + overlap.truth] == boxes_.label[slot];
  };
  const auto object_of = [&](const Overlap& overlap) -> TruthOutcome& {
    return outcomes_.truth[image.first_truth + overlap.truth];
  };

  // Hits: the free object of the class with the highest IoU, the first one of equals.
  for (std::uint32_t rank = 0; rank < evaluated_count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    TideOutcome& outcome = outcomes_.detection[slot].tide;
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
  for (std::uint32_t rank = 0; rank < evaluated_count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    TideOutcome& outcome = outcomes_.detection[slot].tide;
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
    outcome.corrects = corrected != 2 && boxes_.score[slot] > -1;
    corrected = outcome.corrects ? 2 : std::max<std::uint8_t>(corrected, 1);
    if (outcome.corrects && outcome.fault == FaultKind::kClassification) {
      moved_.push_back({.label = boxes_.truth_label[image.first_truth + target->truth],
                        .order = boxes_.slot_in_file_order(image.image, slot),
                        .score = boxes_.score[slot]});
    }
  }
  for (std::uint32_t g = 0; g < image.truth_count; ++g) {
    TruthOutcome& object = outcomes_.truth[image.first_truth + g];
    object.tide_missed = !object.crowd && !object.tide_hit && corrected_[g] == 0;
  }
}

}  // namespace retina
