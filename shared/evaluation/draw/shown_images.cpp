#include "shared/evaluation/draw/shown_images.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>
#include <utility>

#include "shared/base/cat.h"
#include "shared/data/record_image.h"
#include "shared/image/draw.h"

namespace retina {

namespace {

constexpr int kSmallestSidePx = 240;  // of the longer side as drawn
constexpr Colour kTruthTextColour{.red = 255, .green = 255, .blue = 255};
constexpr Colour kRightColour{.red = 120, .green = 230, .blue = 150};
constexpr Colour kWrongColour{.red = 255, .green = 120, .blue = 100};
constexpr Colour kTruthColour{.red = 255, .green = 255, .blue = 255};

std::array<double, 4> corners_of(const std::array<double, 4>& box) {
  return {box[0], box[1], box[0] + box[2], box[1] + box[3]};
}

// Returns the size of the whole image.
ImageSize image_size(const IndexEntry& entry) {
  if (entry.tile) return {.width = entry.tile->image_width, .height = entry.tile->image_height};
  return {.width = entry.width, .height = entry.height};
}

struct ClassCaption {
  std::string truth{};
  std::string predicted{};
  double confidence = 0;  // of the prediction
};

// Returns the image above two lines of text, the true class and the predicted one with its
// confidence, green if it is the true one, else red; a tiny image is enlarged by a whole factor.
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
  std::vector<const Detection*> drawn;
  std::vector<int> labels;
  for (const Detection& one : found) {
    if (!(one.score >= score)) continue;
    drawn.push_back(&one);
    labels.push_back(categories.label_of(one.category_id).value_or(0));
  }
  const bool has_names = are_worth_names(labels, std::identity());
  for (std::size_t i = drawn.size(); i-- > 0;) {
    draw_box(image, corners_of(drawn[i]->bbox),
             {.colour = label_colour(labels[i]), .thickness_px = 0, .dashed = false},
             has_names ? cat(categories.at(labels[i]).name, " ", fixed(drawn[i]->score, 2)) : "");
  }
  return static_cast<int>(drawn.size());
}

std::vector<std::size_t> busiest_tiles(std::span<const Detection> found, double score,
                                       const std::vector<TileRect>& tiles, std::size_t count) {
  std::vector<std::pair<int, std::size_t>> busy;  // by minus the number of detections
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const TileRect& tile = tiles[i];
    const auto inside = std::count_if(found.begin(), found.end(), [&](const Detection& one) {
      const double x = one.bbox[0] + one.bbox[2] / 2, y = one.bbox[1] + one.bbox[3] / 2;
      return one.score >= score && x >= tile.x && x < tile.x + tile.width && y >= tile.y &&
             y < tile.y + tile.height;
    });
    if (inside > 0) busy.emplace_back(-static_cast<int>(inside), i);
  }
  std::sort(busy.begin(), busy.end());
  busy.resize(std::min(busy.size(), count));
  std::vector<std::size_t> places;
  for (const auto& [minus_count, place] : busy) places.push_back(place);
  return places;
}

std::vector<Detection> seen_in(std::span<const Detection> found, const TileRect& part,
                               const ImageSize& size) {
  const double scale_x = static_cast<double>(size.width) / part.width;
  const double scale_y = static_cast<double>(size.height) / part.height;
  std::vector<Detection> seen;
  for (Detection one : found) {
    const auto [left, top, right, bottom] = corners_of(one.bbox);
    if (right <= part.x || left >= part.x + part.width || bottom <= part.y ||
        top >= part.y + part.height) {
      continue;
    }
    one.bbox = {(left - part.x) * scale_x, (top - part.y) * scale_y, (right - left) * scale_x,
                (bottom - top) * scale_y};
    seen.push_back(one);
  }
  return seen;
}

std::unordered_map<std::int64_t, std::vector<std::size_t>> image_places(const ShardSet& shards) {
  std::unordered_map<std::int64_t, std::vector<std::size_t>> places;
  const auto& index = shards.index();
  for (std::size_t i = 0; i < index.size(); ++i) places[index[i].image_id].push_back(i);
  return places;
}

Image put_together(const ShardSet& shards, const std::vector<std::size_t>& places,
                   JpegDecoder& decoder, int max_side_px) {
  const ImageSize size = image_size(shards.index()[places.front()]);
  const double scale =
      std::min(1.0, static_cast<double>(max_side_px) / std::max(size.width, size.height));
  const auto scaled = [&](int length) {
    return std::max(1, static_cast<int>(std::lround(length * scale)));
  };
  Image whole(scaled(size.width), scaled(size.height));
  Image image;
  for (const std::size_t place : places) {
    const Record record = shards.read(place);
    decode_image(record, shards.folder(), decoder, image);
    const TilePlace at = record.tile.value_or(TilePlace{});
    const int left = static_cast<int>(std::lround(at.x * scale));
    const int top = static_cast<int>(std::lround(at.y * scale));
    const Image part =
        scale == 1 ? std::move(image)
                   : shrink(image, {.width = std::min(scaled(image.width), whole.width - left),
                                    .height = std::min(scaled(image.height), whole.height - top)});
    for (int y = 0; y < part.height; ++y) {
      std::copy_n(part.pixel(0, y), std::ptrdiff_t{3} * part.width, whole.pixel(left, top + y));
    }
  }
  return whole;
}

namespace {

// Draws a set's images, or the parts of a large one, until there are enough.
class Drawing {
 public:
  Drawing(const ShardSet& shards, const std::vector<Detection>& detections,
          const DrawOptions& options, const std::function<void(const DrawnImage&)>& use)
      : shards_(shards),
        categories_(shards.manifest().categories),
        detections_(detections),
        options_(options),
        use_(use) {}

  bool is_done() const { return count_ >= options_.count; }

  void draw(std::int64_t image_id, const std::vector<std::size_t>& places) {
    const auto& index = shards_.index();
    const auto found = detections_of(image_id, detections_);
    const bool is_shown = std::any_of(found.begin(), found.end(), [&](const Detection& one) {
      return one.score >= options_.score;
    });
    const bool has_boxes = std::any_of(places.begin(), places.end(),
                                       [&](std::size_t i) { return index[i].box_count > 0; });
    if (!has_boxes && !is_shown) return;
    const ImageSize size = image_size(index[places.front()]);
    const bool is_large =
        index[places.front()].tile && std::max(size.width, size.height) > kOverviewSidePx;
    const TileRect all{.width = size.width, .height = size.height};
    const int side_px = is_large ? kOverviewSidePx : std::max(size.width, size.height);
    const std::vector<RecordAnnotation> truth = truth_of(places);
    show(places.front(), all, is_large ? "whole" : "",
         put_together(shards_, places, decoder_, side_px), truth);
    // A large image also comes as its busiest tiles, in full size.
    if (!is_large) return;
    std::vector<TileRect> tiles;
    for (const std::size_t place : places) {
      const IndexEntry one = index[place];
      tiles.push_back(
          {.x = one.tile->x, .y = one.tile->y, .width = one.width, .height = one.height});
    }
    for (const std::size_t i : busiest_tiles(found, options_.score, tiles, kShownTiles)) {
      if (is_done()) return;
      const IndexEntry one = index[places[i]];
      Image image;
      decode_image(shards_.read(places[i]), shards_.folder(), decoder_, image);
      show(places[i], tiles[i], tile_text(*one.tile, one.width, one.height), std::move(image),
           truth);
    }
  }

 private:
  std::vector<RecordAnnotation> truth_of(const std::vector<std::size_t>& places) const {
    for (const std::size_t place : places) {
      Record record = shards_.read(place);
      if (!record.tile) return record.annotations;
      if (record.whole_annotations) return *record.whole_annotations;
    }
    return {};
  }

  // Draws one picture; `image` shows `part` of the whole image.
  void show(std::size_t place, const TileRect& part, const std::string& part_name, Image image,
            const std::vector<RecordAnnotation>& truth) {
    const IndexEntry entry = shards_.index()[place];
    DrawnImage result{.image_id = entry.image_id,
                      .file_name = std::string(entry.file_name),
                      .part = part_name,
                      .image = std::move(image)};
    const ImageSize size{.width = result.image.width, .height = result.image.height};
    std::vector<Detection> objects;
    for (const RecordAnnotation& object : truth) {
      if (!object.iscrowd) objects.push_back({.bbox = object.bbox});
    }
    for (const Detection& object : seen_in(objects, part, size)) {
      ++result.object_count;
      draw_box(result.image, corners_of(object.bbox),
               {.colour = kTruthColour, .thickness_px = 0, .dashed = true}, "");
    }
    result.found_count =
        draw_found(result.image, seen_in(detections_of(entry.image_id, detections_), part, size),
                   options_.score, categories_);
    use_(result);
    ++count_;
  }

  const ShardSet& shards_;
  const CategoryMap categories_;
  const std::vector<Detection>& detections_;
  const DrawOptions& options_;
  const std::function<void(const DrawnImage&)>& use_;
  JpegDecoder decoder_{};
  std::size_t count_ = 0;
};

}  // namespace

void draw_detections(const ShardSet& shards, const std::vector<Detection>& detections,
                     const DrawOptions& options,
                     const std::function<void(const DrawnImage&)>& use) {
  const auto places = image_places(shards);
  std::unordered_map<std::int64_t, std::size_t> turns;
  for (const std::int64_t id : options.first_ids) turns.emplace(id, turns.size());
  std::vector<std::pair<std::size_t, std::int64_t>> order;  // turn, id
  for (const auto& [id, of_image] : places) {
    const auto found = turns.find(id);
    order.emplace_back(found == turns.end() ? turns.size() : found->second, id);
  }
  std::sort(order.begin(), order.end());
  Drawing drawing(shards, detections, options, use);
  for (const auto& [turn, id] : order) {
    if (drawing.is_done()) break;
    if (!options.may_be_drawn || options.may_be_drawn(id)) drawing.draw(id, places.at(id));
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
