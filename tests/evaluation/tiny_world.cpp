#include "tests/evaluation/tiny_world.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/data/record_image.h"
#include "shared/image/jpeg.h"
#include "shared/numeric/random.h"
#include "shared/shard/image_index.h"
#include "shared/shard/manifest.h"
#include "shared/shard/quarantine.h"
#include "shared/shard/record.h"
#include "shared/shard/shard_writer.h"

namespace retina {

namespace {

constexpr std::array<std::array<int, 2>, 4> kSizes{{{120, 90}, {90, 120}, {100, 100}, {160, 60}}};
constexpr std::uint64_t kShardBytes = 64 << 20;

const std::array<Category, 3>& tiny_categories() {
  static const std::array<Category, 3> categories{
      {{.id = 3, .name = "cat"}, {.id = 5, .name = "dog"}, {.id = 9, .name = "cow"}}};
  return categories;
}

void publish(const std::string& folder, const std::string& bytes, ManifestFile& file) {
  write_file_atomically(folder + "/" + file.name, bytes);
  file.size_bytes = bytes.size();
  file.xxh3 = xxh3(bytes);
}

// Boxes of image `number`, whole pixels.
std::vector<RecordAnnotation> boxes_of(int number, int width, int height) {
  const RandomStream random{.seed = static_cast<std::uint64_t>(number), .use = RandomUse::kTest};
  std::vector<RecordAnnotation> boxes;
  for (int i = 0; i < number % 5; ++i) {
    const auto draw = [&](int what, int bound) {
      return static_cast<double>(random.below(static_cast<std::uint64_t>(i * 10 + what),
                                              static_cast<std::uint64_t>(bound)));
    };
    const double x = draw(0, width / 2), y = draw(1, height / 2);
    const double box_width = 10 + draw(2, width / 2 - 10);
    const double box_height = 10 + draw(3, height / 2 - 10);
    boxes.push_back({.id = number * 100 + i + 1,
                     .bbox = {x, y, box_width, box_height},
                     .area = box_width * box_height * 0.8,
                     .label = static_cast<int>(draw(4, 3)),
                     .iscrowd = i == 1 && number % 3 == 0});
  }
  return boxes;
}

std::string image_from(const std::vector<RecordAnnotation>& boxes, int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      std::uint8_t* pixel = image.pixel(x, y);
      pixel[0] = static_cast<std::uint8_t>(x * 255 / width);
      pixel[1] = static_cast<std::uint8_t>(y * 255 / height);
      pixel[2] = 90;
      for (const RecordAnnotation& box : boxes) {
        if (x < box.bbox[0] || y < box.bbox[1] || x >= box.bbox[0] + box.bbox[2] ||
            y >= box.bbox[1] + box.bbox[3]) {
          continue;
        }
        pixel[box.label] = static_cast<std::uint8_t>(255 - (x ^ y) % 64);
      }
    }
  }
  return encode_jpeg(image, 90);
}

}  // namespace

Instances write_tiny_shards(const std::string& folder, int image_count, Task task) {
  make_folder(folder);
  Instances written{.images = {},
                    .annotations = {},
                    .categories = {tiny_categories().begin(), tiny_categories().end()}};
  const bool detects = task == Task::kDetection;
  Manifest manifest{.task = task,
                    .annotations_size_bytes = 1,
                    .annotations_xxh3 = 1,
                    .options = {.shard_size_bytes = kShardBytes}};
  for (const Category& one : tiny_categories()) {
    manifest.categories.push_back({.id = one.id, .name = one.name});
    manifest.label_counts.push_back(0);
  }
  ImageIndex index;
  const std::string part = folder + "/part";
  ShardWriter writer(part, kShardBytes);
  for (int i = 0; i < image_count; ++i) {
    const int number = image_count - 1 - i;  // packed order is not id order
    const auto [width, height] = kSizes[static_cast<std::size_t>(number) % kSizes.size()];
    const auto seen = boxes_of(number, width, height);
    const std::string jpeg = image_from(seen, width, height);
    const auto boxes = detects ? seen : std::vector<RecordAnnotation>{};
    Record record{.image_id = 1000 + number,
                  .file_name = cat("tiny/", number, ".jpg"),
                  .width = width,
                  .height = height,
                  .annotations = boxes,
                  .image = jpeg};
    if (!detects) record.label = number % static_cast<int>(tiny_categories().size());
    const auto trainable = std::count_if(boxes.begin(), boxes.end(), [&](const auto& box) {
      return is_trainable(box, width, height);
    });
    index.push_back({.image_id = record.image_id,
                     .width = width,
                     .height = height,
                     .box_count = static_cast<std::uint32_t>(boxes.size()),
                     .trainable_count = static_cast<std::uint32_t>(trainable),
                     .shard = 0,
                     .place = writer.append(encode_record(record)),
                     .labels = detects ? std::vector<int>{} : entry_labels(record),
                     .file_name = record.file_name});
    manifest.counts.images += 1;
    if (record.label) manifest.label_counts[static_cast<std::size_t>(*record.label)] += 1;
    manifest.counts.images_without_boxes += detects && boxes.empty() ? 1 : 0;
    manifest.counts.trainable += trainable;
    written.images.push_back(
        {.id = record.image_id, .file_name = record.file_name, .width = width, .height = height});
    for (const RecordAnnotation& box : boxes) {
      manifest.counts.boxes += 1;
      manifest.counts.crowds += box.iscrowd ? 1 : 0;
      manifest.label_counts[static_cast<std::size_t>(box.label)] += 1;
    }
  }
  std::reverse(written.images.begin(), written.images.end());
  for (int number = 0; detects && number < image_count; ++number) {
    const ImageInfo& image = written.images[static_cast<std::size_t>(number)];
    for (const RecordAnnotation& box : boxes_of(number, image.width, image.height)) {
      written.annotations.push_back(
          {.id = box.id,
           .image_id = image.id,
           .category_id = tiny_categories()[static_cast<std::size_t>(box.label)].id,
           .bbox = box.bbox,
           .area = box.area,
           .iscrowd = box.iscrowd});
    }
  }
  manifest.shards.push_back(writer.finish());
  manifest.shards[0].file.name = shard_file_name(0, 1);
  std::filesystem::rename(part, folder + "/" + manifest.shards[0].file.name);
  manifest.index.name = kIndexFile;
  publish(folder, encode_index(index), manifest.index);
  manifest.quarantine.name = kQuarantineFile;
  publish(folder, encode_quarantine({}), manifest.quarantine);
  write_file_atomically(folder + "/" + kManifestFile, encode_manifest(manifest));
  return written;
}

namespace {

std::vector<RecordAnnotation> annotations_in(const TileRect& tile,
                                             const std::vector<RecordAnnotation>& whole) {
  std::vector<RecordAnnotation> inside;
  for (RecordAnnotation one : whole) {
    const auto& [x, y, width, height] = one.bbox;
    const double left = std::max<double>(x, tile.x), top = std::max<double>(y, tile.y);
    const double right = std::min<double>(x + width, tile.x + tile.width);
    const double bottom = std::min<double>(y + height, tile.y + tile.height);
    if (right <= left || bottom <= top) continue;
    one.is_partial = !one.iscrowd && (right - left) * (bottom - top) < .5 * width * height;
    one.bbox = {left - tile.x, top - tile.y, right - left, bottom - top};
    inside.push_back(one);
  }
  return inside;
}

}  // namespace

void write_tiles(const ShardSet& shards, const TileGrid& grid, const std::string& folder) {
  make_folder(folder);
  Manifest manifest = shards.manifest();
  manifest.counts = {};
  std::fill(manifest.label_counts.begin(), manifest.label_counts.end(), 0);
  manifest.shards.clear();
  ImageIndex index;
  const std::string part = folder + "/part";
  ShardWriter writer(part, kShardBytes);
  JpegDecoder decoder;
  for (std::size_t place = 0; place < shards.index().size(); ++place) {
    const Record whole = shards.read(place);
    Image image;
    decode_image(whole, folder, decoder, image);
    for (const TileRect& tile : tiles_of({image.width, image.height}, grid)) {
      std::string rgb;
      for (int y = tile.y; y < tile.y + tile.height; ++y) {
        rgb.append(reinterpret_cast<const char*>(image.pixel(tile.x, y)),
                   std::size_t{3} * static_cast<std::size_t>(tile.width));
      }
      Record record{.image_id = whole.image_id,
                    .file_name = whole.file_name,
                    .width = tile.width,
                    .height = tile.height,
                    .encoding = ImageEncoding::kRaw,
                    .annotations = annotations_in(tile, whole.annotations),
                    .tile = TilePlace{.x = tile.x,
                                      .y = tile.y,
                                      .image_width = image.width,
                                      .image_height = image.height},
                    .image = rgb};
      if (tile.x == 0 && tile.y == 0) record.whole_annotations = whole.annotations;
      const auto& boxes = record.annotations;
      const auto trainable = std::count_if(boxes.begin(), boxes.end(), [&](const auto& box) {
        return is_trainable(box, tile.width, tile.height);
      });
      index.push_back({.image_id = record.image_id,
                       .width = tile.width,
                       .height = tile.height,
                       .box_count = static_cast<std::uint32_t>(boxes.size()),
                       .trainable_count = static_cast<std::uint32_t>(trainable),
                       .shard = 0,
                       .place = writer.append(encode_record(record)),
                       .file_name = record.file_name,
                       .tile = record.tile});
      manifest.counts.images += 1;
      manifest.counts.boxes += static_cast<std::int64_t>(boxes.size());
      manifest.counts.trainable += trainable;
      manifest.counts.images_without_boxes += boxes.empty() ? 1 : 0;
      for (const RecordAnnotation& box : boxes) {
        manifest.counts.crowds += box.iscrowd ? 1 : 0;
        manifest.label_counts[static_cast<std::size_t>(box.label)] += 1;
      }
    }
  }
  manifest.shards.push_back(writer.finish());
  manifest.shards[0].file.name = shard_file_name(0, 1);
  std::filesystem::rename(part, folder + "/" + manifest.shards[0].file.name);
  publish(folder, encode_index(index), manifest.index);
  publish(folder, encode_quarantine({}), manifest.quarantine);
  write_file_atomically(folder + "/" + kManifestFile, encode_manifest(manifest));
}

RetinaNet tiny_network(std::uint64_t seed) {
  ModelConfig config;
  config.backbone = "resnet18";
  config.class_count = static_cast<int>(tiny_categories().size());
  config.min_side_px = 96;
  config.max_side_px = 128;
  config.anchor_sizes = {8, 16, 32, 64, 128};
  RetinaNet network(config);
  initialise(network, seed);
  return network;
}

std::unique_ptr<Classifier> tiny_classifier(std::uint64_t seed) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = "resnet18";
  config.class_count = static_cast<int>(tiny_categories().size());
  config.min_side_px = 64;
  config.max_side_px = 73;
  std::unique_ptr<Classifier> network = make_classifier(config);
  initialise(*network, seed);
  return network;
}

void write_tiny_checkpoint(const std::string& path, const Network& network) {
  Checkpoint checkpoint;
  checkpoint.model = state_of(network);
  JsonWriter config;
  config.begin_object().key("model").raw(network.config().to_json());
  checkpoint.config_json = config.key("train").begin_object().end_object().end_object().text();
  checkpoint.categories = {tiny_categories().begin(), tiny_categories().end()};
  save_checkpoint(path, checkpoint);
}

}  // namespace retina
