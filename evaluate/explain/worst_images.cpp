#include "evaluate/explain/worst_images.h"

#include <algorithm>
#include <numeric>

namespace retina {

namespace {

std::vector<std::int64_t> worst_by(double ImageFaults::*measure,
                                   std::span<const ImageFaults> faults, const BoxGroups& boxes,
                                   std::size_t most) {
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < faults.size(); ++i) {
    if (faults[i].*measure > 0) places.push_back(i);
  }
  const auto end = places.begin() + static_cast<std::ptrdiff_t>(std::min(most, places.size()));
  std::partial_sort(places.begin(), end, places.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double x = faults[a].*measure, y = faults[b].*measure;
    return x != y ? x > y : a < b;
  });
  places.erase(end, places.end());
  std::vector<std::int64_t> ids;
  for (const std::uint32_t place : places) ids.push_back(boxes.image(place).id);
  return ids;
}

}  // namespace

WorstImages worst_images(std::span<const ImageFaults> faults, const BoxGroups& boxes,
                         std::size_t most) {
  return {.ap_lost = worst_by(&ImageFaults::ap_lost, faults, boxes, most),
          .confident_wrong = worst_by(&ImageFaults::confident_wrong, faults, boxes, most),
          .largest_missed = worst_by(&ImageFaults::largest_missed, faults, boxes, most)};
}

std::vector<std::int64_t> images_worth_drawing(const WorstImages& worst, const Confusion& confusion,
                                               std::size_t most) {
  std::vector<std::int64_t> chosen;
  const auto add = [&](std::int64_t image) {
    if (chosen.size() < most && std::find(chosen.begin(), chosen.end(), image) == chosen.end()) {
      chosen.push_back(image);
    }
  };
  const std::array<const std::vector<std::int64_t>*, 3> lists{
      &worst.ap_lost, &worst.confident_wrong, &worst.largest_missed};
  for (std::size_t i = 0; i < std::max({lists[0]->size(), lists[1]->size(), lists[2]->size()});
       ++i) {
    for (const auto* list : lists) {
      if (i < list->size()) add((*list)[i]);
    }
  }

  std::vector<const ConfusionCell*> confused, right;
  for (const ConfusionCell& cell : confusion.cells) {
    if (!cell.image_ids.empty()) (cell.truth == cell.found ? right : confused).push_back(&cell);
  }
  std::stable_sort(confused.begin(), confused.end(),
                   [&](const ConfusionCell* a, const ConfusionCell* b) {
                     return a->counts[confusion.chosen] > b->counts[confusion.chosen];
                   });
  for (const ConfusionCell* cell : confused) {
    if (chosen.size() == most || cell->counts[confusion.chosen] == 0) break;
    add(cell->image_ids.front());
  }
  for (const ConfusionCell* cell : right) {
    if (chosen.size() == most) break;
    add(cell->image_ids.front());
  }
  return chosen;
}

ShownImage shown_image(std::uint32_t image, std::size_t most_boxes, const MatchOutcomes& outcomes) {
  const BoxGroups& boxes = outcomes.boxes;
  ShownImage shown{.image = boxes.image(image)};
  for (std::uint32_t g = boxes.truth_begin[image]; g < boxes.truth_begin[image + 1]; ++g) {
    const Annotation& one = boxes.object(g);
    shown.truths.push_back({.id = one.id,
                            .category_id = one.category_id,
                            .bbox = one.bbox,
                            .crowd = one.iscrowd,
                            .missed = !one.iscrowd && !outcomes.truth[g].tide_hit});
  }
  for (std::uint32_t slot = boxes.found_begin[image]; slot < boxes.found_begin[image + 1]; ++slot) {
    const TideOutcome outcome = outcomes.detection[slot].tide;
    const Detection& one = boxes.detection(slot);
    if (!outcome.evaluated || !(one.score >= kShownScore)) break;
    if (shown.found.size() == most_boxes) break;
    shown.found.push_back(
        {.category_id = one.category_id, .bbox = one.bbox, .score = one.score, .outcome = outcome});
  }
  return shown;
}

}  // namespace retina
