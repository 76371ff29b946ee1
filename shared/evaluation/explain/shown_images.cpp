#include "shared/evaluation/explain/shown_images.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "shared/base/cat.h"
#include "shared/data/record_image.h"
#include "shared/evaluation/explain/class_examples.h"
#include "shared/image/draw.h"

namespace retina {

namespace {

constexpr int kSmallestSidePx = 240;  // of the longer side as it is drawn
constexpr Colour kTruthTextColour{.red = 255, .green = 255, .blue = 255};
constexpr Colour kRightColour{.red = 120, .green = 230, .blue = 150};
constexpr Colour kWrongColour{.red = 255, .green = 120, .blue = 100};
constexpr Colour kTruthColour{.red = 255, .green = 255, .blue = 255};

std::array<double, 4> corners_of(const std::array<double, 4>& box) {
  return {box[0], box[1], box[0] + box[2], box[1] + box[3]};
}

struct ClassCaption {
  std::string truth{};
  std::string predicted{};
  double confidence = 0;  // of the prediction
};

// Above two lines of text, the true class and the predicted one with its confidence, green where it
// is the true one, else red; enlarged by a whole factor where it is tiny.
Image captioned(const Image& image, const ClassCaption& caption) {
  const int longer = std::max(image.width, image.height);
  const int factor = std::max(1, (kSmallestSidePx + longer - 1) / longer);
  const int width = image.width * factor, height = image.height * factor;
  const int scale = std::max(
      2, static_cast<int>(std::lround(static_cast<double>(std::max(width, height)) / 250)));
  const std::string truth = cat("truth: ", caption.truth);
  const std::string found = cat(caption.predicted, " ", fixed(caption.confidence, 2));
  const int margin = 2 * scale, line = text_height_px(scale) + margin;
  const int text_width = std::max(text_width_px(truth, scale), text_width_px(found, scale));

  Image drawn(std::max(width, text_width + 2 * margin), height + 2 * line + margin);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      std::copy_n(image.pixel(x / factor, y / factor), 3, drawn.pixel(x, y));
    }
  }
  draw_text(drawn, margin, height + margin, truth, {.colour = kTruthTextColour, .scale = scale});
  draw_text(
      drawn, margin, height + margin + line, found,
      {.colour = caption.truth == caption.predicted ? kRightColour : kWrongColour, .scale = scale});
  return drawn;
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
    if (options.may_be_drawn && !options.may_be_drawn(index[place].image_id)) continue;
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

void draw_mistakes(const ShardSet& shards, const std::vector<ClassOutcome>& outcomes,
                   std::size_t count, const std::function<void(const DrawnImage&)>& use) {
  const Categories& categories = shards.manifest().categories;
  const auto name_of = [&](std::int32_t label) {
    return categories.at(static_cast<std::size_t>(label)).name;
  };
  std::unordered_map<std::int64_t, std::size_t> places;
  const auto& index = shards.index();
  for (std::size_t i = 0; i < index.size(); ++i) places.emplace(index[i].image_id, i);
  std::vector<const ClassOutcome*> mistakes = mistakes_by_confidence(outcomes);
  mistakes.resize(std::min(mistakes.size(), count));
  JpegDecoder decoder;
  Image image;
  for (const ClassOutcome* one : mistakes) {
    const Record record = shards.read(places.at(one->image_id));
    decode_image(record, shards.folder(), decoder, image);
    use({.image_id = record.image_id,
         .file_name = record.file_name,
         .image = captioned(image, {.truth = name_of(one->label),
                                    .predicted = name_of(one->predicted()),
                                    .confidence = one->confidence()})});
  }
}

}  // namespace retina
