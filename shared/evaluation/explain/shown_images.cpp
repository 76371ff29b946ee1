#include "shared/evaluation/explain/shown_images.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "shared/base/cat.h"
#include "shared/data/record_image.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/image/draw.h"

namespace retina {

namespace {

constexpr Colour kTruthColour{.red = 255, .green = 255, .blue = 255};

std::array<double, 4> corners_of(const std::array<double, 4>& box) {
  return {box[0], box[1], box[0] + box[2], box[1] + box[3]};
}

}  // namespace

std::span<const Detection> detections_of(std::int64_t image_id,
                                         const std::vector<Detection>& detections) {
  const auto by_image = [](const Detection& one, std::int64_t id) { return one.image_id < id; };
  const auto first = std::lower_bound(detections.begin(), detections.end(), image_id, by_image);
  auto last = first;
  while (last != detections.end() && last->image_id == image_id) ++last;
  return {first, last};
}

int draw_found(Image& image, std::span<const Detection> found, double score,
               const CategoryMap& categories) {
  int count = 0;
  for (std::size_t i = found.size(); i-- > 0;) {
    const Detection& one = found[i];
    if (!(one.score >= score)) continue;
    const int label = categories.label_of(one.category_id).value_or(0);
    draw_box(image, corners_of(one.bbox),
             {.colour = label_colour(label), .thickness_px = 0, .dashed = false},
             cat(categories.at(label).name, " ", fixed(one.score, 2)));
    ++count;
  }
  return count;
}

void draw_detections(const ShardSet& shards, const std::vector<Detection>& detections,
                     const DrawOptions& options,
                     const std::function<void(const DrawnImage&)>& use) {
  const CategoryMap categories(shards.manifest().categories);
  const auto& index = shards.index();
  std::vector<std::size_t> places(index.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::unordered_map<std::int64_t, std::size_t> turns;
  for (const std::int64_t id : options.first_ids) turns.emplace(id, turns.size());
  const auto turn = [&](std::size_t place) {
    const auto found = turns.find(index[place].image_id);
    return std::pair(found == turns.end() ? turns.size() : found->second, index[place].image_id);
  };
  std::sort(places.begin(), places.end(),
            [&](std::size_t a, std::size_t b) { return turn(a) < turn(b); });
  JpegDecoder decoder;
  std::size_t drawn = 0;
  for (const std::size_t place : places) {
    if (drawn == options.count) break;
    const auto found = detections_of(index[place].image_id, detections);
    const bool is_shown = std::any_of(found.begin(), found.end(), [&](const Detection& one) {
      return one.score >= options.score;
    });
    if (index[place].box_count == 0 && !is_shown) continue;

    const Record record = shards.read(place);
    DrawnImage result{.image_id = record.image_id,
                      .file_name = record.file_name,
                      .found_count = 0,
                      .object_count = 0,
                      .image = {}};
    decode_image(record, shards.folder(), decoder, result.image);
    for (const RecordAnnotation& object : record.annotations) {
      if (object.iscrowd) continue;
      ++result.object_count;
      draw_box(result.image, corners_of(object.bbox),
               {.colour = kTruthColour, .thickness_px = 0, .dashed = true}, "");
    }
    result.found_count = draw_found(result.image, found, options.score, categories);
    use(result);
    ++drawn;
  }
}

}  // namespace retina
