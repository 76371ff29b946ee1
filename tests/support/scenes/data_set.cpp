#include "tests/support/scenes/data_set.h"

#include <algorithm>
#include <array>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/parallel.h"
#include "shared/image/jpeg.h"
#include "tests/support/scenes/scene.h"
#include "tests/support/scenes/shape.h"

namespace retina::scenes {
namespace {

// One half of the data set. Image numbers and ids of the halves never meet.
struct Split {
  std::string name{};
  int count = 0;
  std::uint32_t first_number = 0;
  std::int64_t first_id = 0;
};

// What is wrong with a file, by its place in the split.
enum class Damage { kNone, kTruncated, kNoJpeg, kEmpty, kWrongSize };

Damage damage_at(int place, int count) {
  if (place == count / 6) return Damage::kTruncated;
  if (place == count / 3) return Damage::kNoJpeg;
  if (place == count / 2) return Damage::kWrongSize;
  if (place == count * 2 / 3) return Damage::kEmpty;
  return Damage::kNone;
}

// A whole PNG of one grey pixel, under a .jpg name.
std::string tiny_png() {
  static constexpr std::array<unsigned char, 67> kBytes = {
      0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
      0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x00, 0x00,
      0x00, 0x3a, 0x7e, 0x9b, 0x55, 0x00, 0x00, 0x00, 0x0a, 0x49, 0x44, 0x41, 0x54, 0x78,
      0x9c, 0x63, 0x68, 0x00, 0x00, 0x00, 0x82, 0x00, 0x81, 0x77, 0xcd, 0x72, 0xb6, 0x00,
      0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
  return {reinterpret_cast<const char*>(kBytes.data()), kBytes.size()};
}

std::string file_name(std::int64_t image_id) {
  const std::string digits = std::to_string(image_id);
  return std::string(12 - std::min<std::size_t>(12, digits.size()), '0') + digits + ".jpg";
}

// Image `place` of `split`: writes its file, returns its entries of the JSON.
struct Entry {
  ImageInfo image{};
  std::vector<Annotation> annotations{};
};

Entry write_image(const DataSetOptions& options, const Split& split, int place) {
  const Damage damage = options.intact ? Damage::kNone : damage_at(place, split.count);
  const std::uint32_t number = split.first_number + static_cast<std::uint32_t>(place);
  const std::span<const ShapeClass> classes = first_classes(options.classes);
  Scene scene = options.side_px > 0 ? make_large_scene(options.seed, number, classes,
                                                       options.side_px, options.object_px)
                                    : make_scene(options.seed, number, classes);
  // Ids with gaps, as real data has them.
  const std::int64_t id = split.first_id + 3 * place + place % 2;
  Entry entry{.image = {.id = id,
                        .file_name = file_name(id),
                        .width = scene.image.width,
                        .height = scene.image.height},
              .annotations = std::move(scene.annotations)};
  std::string bytes = encode_jpeg(scene.image, scene.quality);
  if (damage == Damage::kTruncated) bytes.resize(bytes.size() / 2);
  if (damage == Damage::kNoJpeg) bytes = tiny_png();
  if (damage == Damage::kEmpty) bytes.clear();
  if (damage == Damage::kWrongSize) std::swap(entry.image.width, entry.image.height);
  write_file_atomically(cat(options.output, "/images/", split.name, "/", entry.image.file_name),
                        bytes);
  return entry;
}

void write_split(const DataSetOptions& options, const Split& split) {
  make_folder(cat(options.output, "/images/", split.name));
  std::vector<Entry> entries(static_cast<std::size_t>(split.count));
  for_each_parallel(entries.size(), options.threads, [&](std::size_t place) {
    entries[place] = write_image(options, split, static_cast<int>(place));
  });

  Instances instances;
  std::int64_t annotation_id = split.first_id * 100;
  for (auto& entry : entries) {
    for (auto& annotation : entry.annotations) {
      annotation.id = ++annotation_id;
      annotation.image_id = entry.image.id;
      instances.annotations.push_back(annotation);
    }
    instances.images.push_back(std::move(entry.image));
  }
  for (const ShapeClass& shape : first_classes(options.classes)) {
    instances.categories.push_back(
        {.id = shape.category_id, .name = shape.name, .supercategory = "shape"});
  }
  std::sort(instances.categories.begin(), instances.categories.end(),
            [](const Category& a, const Category& b) { return a.id < b.id; });
  write_file_atomically(cat(options.output, "/annotations/instances_", split.name, ".json"),
                        instances_to_json(instances));
}

}  // namespace

bool write_data_set(const DataSetOptions& options) {
  if (options.train_count < 1 || options.validation_count < 1) {
    throw Error(ErrorKind::kUsage,
                cat("counts of images: want at least 1 (got ", options.train_count, " and ",
                    options.validation_count, ")"));
  }
  if (options.classes < 1 || options.classes > kMaxClasses) {
    throw Error(ErrorKind::kUsage, cat("--classes: out of range (got ", options.classes,
                                       ", want 1..", kMaxClasses, ")"));
  }
  const bool is_large = options.side_px > 0;
  if (options.side_px < 0 || options.side_px > 30000 || options.object_px < 4 ||
      (is_large && options.object_px > options.side_px)) {
    throw Error(ErrorKind::kUsage, cat("--side, --object-size: out of range (got ", options.side_px,
                                       " and ", options.object_px, ", want 0..30000 and 4..side)"));
  }
  JsonWriter json;
  json.begin_object()
      .field("generator", 1)  // raised when the images change
      .field("seed", options.seed)
      .field("train_count", options.train_count)
      .field("validation_count", options.validation_count)
      .field("intact", options.intact);
  if (options.classes != DataSetOptions().classes) json.field("classes", options.classes);
  if (is_large) json.field("side", options.side_px).field("object_size", options.object_px);
  json.end_object();
  const std::string marker = options.output + "/scenes.json", description = json.pretty_text();
  if (path_exists(marker) && read_file(marker) == description) return false;
  make_folder(options.output + "/annotations");
  remove_file(marker);
  const auto train_count = static_cast<std::uint32_t>(options.train_count);
  write_split(options, {.name = "train2017", .count = options.train_count, .first_id = 1000});
  write_split(options, {.name = "val2017",
                        .count = options.validation_count,
                        .first_number = train_count,
                        .first_id = 5000 + 3 * options.train_count});
  write_file_atomically(marker, description);
  return true;
}

}  // namespace retina::scenes
