#include "preprocess/inspect.h"

#include <algorithm>
#include <set>
#include <vector>

#include "preprocess/summary.h"
#include "preprocess/tally.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"
#include "shared/data/record_image.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/image/draw.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

constexpr int kDrawQuality = 95;

// Smallest, middle and largest of some numbers.
std::string spread(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return cat(values.front(), " / ", values[values.size() / 2], " / ", values.back());
}

std::string describe_images(const ImageIndex& index, Task task) {
  std::vector<std::int64_t> widths, heights, boxes;
  for (const IndexEntry& entry : index) {
    widths.push_back(entry.width);
    heights.push_back(entry.height);
    boxes.push_back(entry.box_count);
  }
  const bool has_tiles = index.front().tile.has_value();
  return cat("\nper ", has_tiles ? "tile " : "image", "       min / median / max\n",
             "  width         ", spread(widths), " px\n  height        ", spread(heights), " px\n",
             task == Task::kDetection ? cat("  boxes         ", spread(boxes), "\n") : "");
}

// How --image calls a tile: "street/17.jpg+1600+0"; empty for a whole image.
std::string tile_file_name(const IndexEntry& entry) {
  return entry.tile ? cat(entry.file_name, "+", entry.tile->x, "+", entry.tile->y) : "";
}

// Names that look the same are the same: accents are written in two forms.
bool is_wanted(const IndexEntry& image, const InspectOptions& options) {
  if (options.image_id && image.image_id != *options.image_id) return false;
  if (options.image_file.empty()) return true;
  const std::string wanted = plain_spelling(options.image_file);
  for (const std::string& name :
       {plain_spelling(std::string(image.file_name)), plain_spelling(tile_file_name(image))}) {
    if (name == wanted || name.ends_with("/" + wanted)) return true;
  }
  return false;
}

std::string bbox_text(const RecordAnnotation& annotation) {
  std::string text;
  for (const double number : annotation.bbox) text += (text.empty() ? "" : ", ") + shortest(number);
  return text;
}

std::string describe_set(const ShardSet& set) {
  const Manifest& manifest = set.manifest();
  std::string text = cat(set.folder(), ":\n", describe_counts(manifest));
  text += describe_images(set.index(), manifest.task);
  std::vector<std::vector<std::string>> shards{{"shard", "records", "size"}};
  for (const ManifestShard& shard : manifest.shards) {
    shards.push_back({shard.file.name, cat(shard.record_count),
                      human_bytes(static_cast<double>(shard.file.size_bytes))});
  }
  std::vector<std::vector<std::string>> categories{
      {"label", "id", "name", manifest.task == Task::kDetection ? "boxes" : "images"}};
  for (std::size_t label = 0; label < manifest.categories.size(); ++label) {
    const Category& category = manifest.categories[label];
    categories.push_back(
        {cat(label), cat(category.id), category.name, cat(manifest.label_counts[label])});
  }
  return cat(text, "\n", text_table(shards), "\n", text_table(categories));
}

// Returns those of the wanted entries that have the very name, or else all.
std::vector<std::size_t> best_named(const ImageIndex& index, const std::vector<std::size_t>& places,
                                    const std::string& wanted) {
  std::vector<std::size_t> exact;
  for (const std::size_t place : places) {
    const IndexEntry entry = index[place];
    if (entry.file_name == wanted || tile_file_name(entry) == wanted) exact.push_back(place);
  }
  return exact.empty() ? places : exact;
}

// Returns the places of the image in the index: in a set of tiles, its tiles or the one that is
// named.
std::vector<std::size_t> find_image(const ShardSet& set, const InspectOptions& options) {
  const auto& index = set.index();
  std::vector<std::size_t> found;
  for (std::size_t place = 0; place < index.size(); ++place) {
    if (is_wanted(index[place], options)) found.push_back(place);
  }
  if (!options.image_file.empty()) found = best_named(index, found, options.image_file);
  const std::string wanted = options.image_file.empty() ? cat("image ", *options.image_id)
                             : options.image_id ? image_name(*options.image_id, options.image_file)
                                                : escaped(options.image_file);
  std::set<std::int64_t> ids;
  for (const std::size_t place : found) ids.insert(index[place].image_id);
  if (ids.size() == 1) return found;
  if (ids.size() > 1) {
    const IndexEntry first = index[found.front()];
    const bool is_one_file = std::all_of(found.begin(), found.end(), [&](std::size_t place) {
      return index[place].file_name == first.file_name;
    });
    throw Error(ErrorKind::kUsage,
                cat("--image ", wanted, ": ", ids.size(),
                    is_one_file ? " images have this file" : " images end so", ", the first is ",
                    image_name(first)),
                is_one_file ? cat("give --image NAME,id=", first.image_id, ", or that of another")
                            : "give the name with its folders");
  }
  for (const QuarantinedImage& bad : set.read_quarantine()) {
    if (!is_wanted({.image_id = bad.image_id, .file_name = bad.file_name}, options)) continue;
    throw Error(ErrorKind::kNoInput,
                cat(set.folder(), ": ", image_name(bad.image_id, bad.file_name),
                    " is in quarantine: ", bad.reason),
                bad.hint);
  }
  throw Error(ErrorKind::kNoInput, cat(set.folder(), ": ", wanted, " is not in this data set"),
              options.image_file.empty() ? "the image ids are those of the annotation file"
                                         : "file names are those of the annotations");
}

// The tiles of an image.
std::string describe_tiles(const ShardSet& set, const std::vector<std::size_t>& places) {
  const IndexEntry first = set.index()[places.front()];
  std::vector<std::vector<std::string>> rows{{"tile", "boxes", "to train on", "shard", "record"}};
  for (const std::size_t place : places) {
    const IndexEntry entry = set.index()[place];
    rows.push_back({tile_file_name(entry), cat(entry.box_count), cat(entry.trainable_count),
                    set.manifest().shards[entry.shard].file.name, cat(entry.place)});
  }
  return cat(image_name(first), ": ", first.tile->image_width, "x", first.tile->image_height, ", ",
             counted(places.size(), "tile"), "\n", text_table(rows));
}

std::string size_text(const Record& record) {
  return record.tile ? cat(tile_text(*record.tile, record.width, record.height), " of ",
                           record.tile->image_width, "x", record.tile->image_height)
                     : cat(record.width, "x", record.height);
}

std::string describe_record(const ShardSet& set, std::size_t index_place) {
  const IndexEntry entry = set.index()[index_place];
  const Record record = set.read(index_place);
  std::string text = cat(
      image_name(entry), ": ", size_text(record), ", ",
      human_bytes(static_cast<double>(record.image.size())), record.rescaled ? ", rescaled" : "",
      record.converted ? ", converted" : "", record.encoding == ImageEncoding::kRaw ? ", raw" : "",
      ", ", escaped(set.manifest().shards[entry.shard].file.name), " record ", entry.place, "\n");
  if (record.label) {
    const auto& category = set.manifest().categories[static_cast<std::size_t>(*record.label)];
    return text + cat("  class ", escaped(category.name), " (label ", *record.label, ", id ",
                      category.id, ")\n");
  }
  std::vector<std::vector<std::string>> rows{
      {"annotation", "category", "bbox (x, y, width, height)", "area", ""}};
  for (const RecordAnnotation& annotation : record.annotations) {
    const auto& category = set.manifest().categories[static_cast<std::size_t>(annotation.label)];
    const bool trainable = is_trainable(annotation, record.width, record.height);
    rows.push_back({cat(annotation.id), category.name, bbox_text(annotation),
                    shortest(annotation.area),
                    annotation.iscrowd           ? "crowd"
                    : annotation.is_partial      ? "partial"
                    : !trainable                 ? "degenerate"
                    : is_cut(annotation, record) ? "cut"
                                                 : ""});
  }
  return text + (record.annotations.empty() ? "  no boxes\n" : text_table(rows));
}

// A JPEG's comment: what we have drawn may be drawn again.
constexpr std::string_view kDrawnBy = "drawn by coco-pack --inspect";

// The comment directly behind the start of the image.
std::string with_comment(const std::string& jpeg, std::string_view text) {
  const std::size_t size = text.size() + 2;  // of the segment, without its marker
  return cat(jpeg.substr(0, 2), "\xff\xfe", static_cast<char>(size >> 8),
             static_cast<char>(size & 0xff), text, jpeg.substr(2));
}

// Writes the image with its boxes and class names.
void draw_record(const ShardSet& set, std::size_t index_place, const std::string& path) {
  const Record record = set.read(index_place);
  Image image;
  JpegDecoder decoder;
  decode_image(record, set.folder(), decoder, image);
  const bool has_names = are_worth_names(record.annotations, &RecordAnnotation::label);
  for (const RecordAnnotation& annotation : record.annotations) {
    const auto& [x, y, width, height] = annotation.bbox;
    const auto& category = set.manifest().categories[static_cast<std::size_t>(annotation.label)];
    draw_box(image, {x, y, x + width, y + height},
             {.colour = label_colour(annotation.label),
              .dashed = annotation.iscrowd || annotation.is_partial},
             has_names ? category.name : "");
  }
  write_file_atomically(path, with_comment(encode_jpeg(image, kDrawQuality), kDrawnBy));
}

constexpr const char* kExportedBy = "exported by coco-pack --inspect --export-annotations";

Instances classes_of_images(const ShardSet& set) {
  Instances out{.categories = set.manifest().categories};
  for (const IndexEntry& entry : set.index()) {
    out.images.push_back({.id = entry.image_id,
                          .file_name = std::string(entry.file_name),
                          .width = entry.width,
                          .height = entry.height});
    const double width = entry.width, height = entry.height;
    const auto label = static_cast<std::size_t>(entry.labels[0]);
    out.annotations.push_back({.id = entry.image_id,
                               .image_id = entry.image_id,
                               .category_id = out.categories.at(label).id,
                               .bbox = {0, 0, width, height},
                               .area = width * height});
  }
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::sort(out.images.begin(), out.images.end(), by_id);
  std::sort(out.annotations.begin(), out.annotations.end(), by_id);
  return out;
}

void export_annotations(const ShardSet& set, const std::string& path) {
  const bool has_boxes = set.manifest().task == Task::kDetection;
  const Instances instances = has_boxes ? ground_truth_of(set) : classes_of_images(set);
  write_file_atomically(path, instances_to_json(instances, kExportedBy));
}

}  // namespace

std::string inspect(const InspectOptions& options) {
  const std::string& exported = options.export_annotations;
  if (!options.draw.empty()) check_may_replace(options.draw, kDrawnBy, "--draw");
  if (!exported.empty()) {
    // As we write it: what another program has changed and saved, with its own spaces, is not ours.
    check_may_replace(exported, cat(R"({"info":{"description":")", kExportedBy, '"'),
                      "--export-annotations");
  }
  const ShardSet set(options.folder, options.scratch);
  if (!exported.empty()) export_annotations(set, exported);
  std::string text;
  if (options.shows_image()) {
    const std::vector<std::size_t> places = find_image(set, options);
    const bool is_one = places.size() == 1;
    text = is_one ? describe_record(set, places.front()) : describe_tiles(set, places);
    if (!options.draw.empty()) {
      if (!is_one) {
        throw Error(ErrorKind::kUsage,
                    cat("--draw: ", image_name(set.index()[places.front()]), " has ", places.size(),
                        " tiles"),
                    cat("give one, as --image ", tile_file_name(set.index()[places.back()]),
                        options.image_id ? cat(",id=", *options.image_id) : ""));
      }
      draw_record(set, places.front(), options.draw);
      text += cat("drawn: ", options.draw, "\n");
    }
  } else {
    text = describe_set(set);
  }
  return exported.empty() ? text : cat(text, "\nannotations: ", exported, "\n");
}

}  // namespace retina
