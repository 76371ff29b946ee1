#include "evaluate/explain/match_outcomes.h"

#include <algorithm>

#include "shared/evaluation/score/matching.h"

namespace retina {

MatchOutcomes::MatchOutcomes(const BoxGroups& groups, int thread_count)
    : boxes(groups), detection(groups.entry.size()), truth(groups.annotation.size()) {
  std::vector<std::uint8_t> found;
  const std::vector<Match> matches = match_detections(groups, thread_count, &found);
  for (std::size_t slot = 0; slot < matches.size(); ++slot) {
    const Match& match = matches[slot];
    detection[slot].coco = match.rank >= boxes.detection_limit() ? CocoOutcome::kUncounted
                           : (match.ignored[0] & 1) != 0         ? CocoOutcome::kIgnored
                           : (match.hit[0] & 1) != 0             ? CocoOutcome::kHit
                                                                 : CocoOutcome::kWrong;
  }
  for (std::size_t g = 0; g < truth.size(); ++g) {
    const Annotation& one = boxes.object(g);
    truth[g].crowd = one.iscrowd;
    truth[g].counts = !one.iscrowd && kCocoAreaRanges[0].has(one.area);
    truth[g].coco_hit = found[g] != 0;
  }
}

MatchedImage ImageMatcher::match(std::uint32_t image) {
  MatchedImage matched{
      .image = image, .first = boxes_.found_begin[image], .first_truth = boxes_.truth_begin[image]};
  matched.count = boxes_.found_begin[image + 1] - matched.first;
  matched.truth_count = boxes_.truth_begin[image + 1] - matched.first_truth;
  measure_overlaps(matched);
  find_tide_hits(matched);
  find_tide_faults(matched);
  return matched;
}

void ImageMatcher::measure_overlaps(MatchedImage& image) {
  edges_.clear();
  for (std::uint32_t g = 0; g < image.truth_count; ++g) {
    edges_.emplace_back(boxes_.object(image.first_truth + g).bbox);
  }
  std::uint32_t overlap_count = 0;
  overlap_begin_.assign(1, 0);
  for (std::uint32_t rank = 0; rank < image.count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    if (outcomes_.detection[slot].coco != CocoOutcome::kUncounted) {
      const BoxEdges box(boxes_.detection(slot).bbox);
      if (overlaps_.size() < overlap_count + image.truth_count) {
        overlaps_.resize(2 * overlap_count + image.truth_count);
      }
      // Every overlap is written, and kept only if it is one: a branch could not be predicted.
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

// Returns the number of detections that TIDE considers: the best of an image, over all classes, as
// many as COCO does of one.
std::uint32_t ImageMatcher::tide_count(const MatchedImage& image) const {
  return std::min(image.count, boxes_.detection_limit());
}

bool ImageMatcher::is_of_class(const MatchedImage& image, std::uint32_t slot,
                               const Overlap& overlap) const {
  return boxes_.truth_label[image.first_truth + overlap.truth] == boxes_.label[slot];
}

TruthOutcome& ImageMatcher::object_of(const MatchedImage& image, const Overlap& overlap) {
  return outcomes_.truth[image.first_truth + overlap.truth];
}

// Finds the free object of the class with the highest IoU, the first of equals: tidecv's
// TIDEExample._run.
void ImageMatcher::find_tide_hits(const MatchedImage& image) {
  for (std::uint32_t rank = 0; rank < tide_count(image); ++rank) {
    const std::uint32_t slot = image.first + rank;
    TideOutcome& outcome = outcomes_.detection[slot].tide;
    outcome.evaluated = true;
    const Overlap* best = nullptr;
    bool in_crowd = false;
    for (const Overlap& overlap : image.of(rank)) {
      if (!is_of_class(image, slot, overlap)) continue;
      if (object_of(image, overlap).crowd) {
        in_crowd |= overlap.iou > kTideIou;
      } else if (overlap.iou >= kTideIou && !object_of(image, overlap).tide_hit &&
                 (best == nullptr || overlap.iou > best->iou)) {
        best = &overlap;
      }
    }
    if (best != nullptr) {
      outcome.hit = true;
      object_of(image, *best).tide_hit = true;
    } else {
      outcome.ignored = in_crowd;
    }
  }
}

// Finds the faults. One detection can be corrected to hit an object: the best of those for which it
// is the nearest (tidecv's TIDERun._eval_image).
void ImageMatcher::find_tide_faults(const MatchedImage& image) {
  corrected_.assign(image.truth_count, 0);
  for (std::uint32_t rank = 0; rank < tide_count(image); ++rank) {
    const std::uint32_t slot = image.first + rank;
    TideOutcome& outcome = outcomes_.detection[slot].tide;
    if (outcome.hit) continue;
    const Overlap *same = nullptr, *other = nullptr;
    for (const Overlap& overlap : image.of(rank)) {
      if (object_of(image, overlap).crowd) continue;
      const Overlap*& nearest = is_of_class(image, slot, overlap) ? same : other;
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
    if (target == nullptr || object_of(image, *target).tide_hit) continue;
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
