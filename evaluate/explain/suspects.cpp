#include "evaluate/explain/suspects.h"

#include <algorithm>

#include "shared/evaluation/score/matching.h"

namespace retina {

const char* suspect_name(SuspectKind kind) {
  constexpr std::array<const char*, kSuspectKindCount> kNames{"unlabelled", "wrong_class",
                                                              "never_found"};
  return kNames.at(static_cast<std::size_t>(kind));
}

bool SuspectFinder::stronger(const Candidate& a, const Candidate& b) {
  if (a.evidence != b.evidence) return a.evidence > b.evidence;
  if (a.iou != b.iou) return a.iou > b.iou;
  if (a.image != b.image) return a.image < b.image;
  if (a.annotation != b.annotation) return a.annotation < b.annotation;
  return a.detection < b.detection;
}

void SuspectFinder::keep(SuspectKind kind, const Candidate& candidate) {
  kept_[static_cast<std::size_t>(kind)].push_back(candidate);
}

void SuspectFinder::add(const MatchedImage& image, const MatchOutcomes& outcomes) {
  const BoxGroups& boxes = outcomes.boxes;
  best_ious_.assign(image.truth_count, 0);
  contested_.assign(image.truth_count, 0);
  for (std::uint32_t rank = 0; rank < image.count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    const DetectionOutcome& outcome = outcomes.detection[slot];
    if (outcome.coco == CocoOutcome::kUncounted) continue;
    const Overlap* other = nullptr;  // the nearest object of another class without a hit
    double most = 0;
    for (const Overlap& overlap : image.of(rank)) {
      const std::uint32_t g = image.first_truth + overlap.truth;
      most = std::max(most, overlap.iou);
      best_ious_[overlap.truth] = std::max(best_ious_[overlap.truth], overlap.iou);
      if (outcomes.truth[g].crowd || outcomes.truth[g].tide_hit) continue;
      if (boxes.truth_label[g] == boxes.label[slot]) continue;
      if (other == nullptr || overlap.iou > other->iou) other = &overlap;
    }
    const double score = boxes.score[slot];
    if (!(score >= options_.score)) continue;
    if (most < kUnlabelledIou) {
      keep(SuspectKind::kUnlabelled,
           {.evidence = score, .iou = most, .image = image.image, .detection = boxes.entry[slot]});
    } else if (!outcome.tide.hit && other != nullptr && other->iou >= kWrongClassIou &&
               contested_[other->truth] == 0) {
      contested_[other->truth] = 1;  // the most confident detection speaks for the others
      keep(SuspectKind::kWrongClass,
           {.evidence = score,
            .iou = other->iou,
            .image = image.image,
            .annotation = boxes.annotation[image.first_truth + other->truth],
            .detection = boxes.entry[slot]});
    }
  }
  for (std::uint32_t i = 0; i < image.truth_count; ++i) {
    const std::uint32_t g = image.first_truth + i;
    if (outcomes.truth[g].crowd || best_ious_[i] >= kExplainedIou) continue;
    keep(SuspectKind::kNeverFound, {.evidence = boxes.object(g).area,
                                    .iou = best_ious_[i],
                                    .image = image.image,
                                    .annotation = boxes.annotation[g]});
  }
}

void SuspectFinder::merge(const SuspectFinder& other) {
  for (std::size_t kind = 0; kind < kSuspectKindCount; ++kind) {
    kept_[kind].insert(kept_[kind].end(), other.kept_[kind].begin(), other.kept_[kind].end());
  }
}

std::vector<Suspect> SuspectFinder::result(const BoxGroups& boxes) const {
  std::vector<Suspect> all;
  for (std::size_t i = 0; i < kSuspectKindCount; ++i) {
    const auto kind = static_cast<SuspectKind>(i);
    std::vector<Candidate> list = kept_[i];
    std::sort(list.begin(), list.end(), stronger);
    list.resize(std::min(list.size(), 8 * options_.most));
    std::vector<Suspect> chosen;
    for (const Candidate& one : list) {
      if (chosen.size() == options_.most) break;
      const ImageInfo& info = boxes.image(one.image);
      Suspect suspect{
          .kind = kind, .image_id = info.id, .file_name = info.file_name, .iou = one.iou};
      if (kind != SuspectKind::kNeverFound) {
        const Detection& detection = boxes.detections()[one.detection];
        suspect.found_category_id = detection.category_id;
        suspect.score = detection.score;
        suspect.bbox = detection.bbox;
      }
      if (kind != SuspectKind::kUnlabelled) {
        const Annotation& annotation = boxes.truth().annotations[one.annotation];
        suspect.annotation_id = annotation.id;
        suspect.category_id = annotation.category_id;
        suspect.bbox = annotation.bbox;
      }
      const bool again =
          kind == SuspectKind::kUnlabelled &&
          std::any_of(chosen.begin(), chosen.end(), [&](const Suspect& earlier) {
            return earlier.image_id == suspect.image_id &&
                   box_iou(BoxEdges(suspect.bbox), BoxEdges(earlier.bbox), false) >= kExplainedIou;
          });
      if (!again) chosen.push_back(suspect);
    }
    all.insert(all.end(), chosen.begin(), chosen.end());
  }
  return all;
}

}  // namespace retina
