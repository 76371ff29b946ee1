#include "evaluate/model/image_files.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "evaluate/detection_formats.h"
#include "evaluate/evaluation_folder.h"
#include "evaluate/outcome.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/base/progress.h"
#include "shared/coco/instances.h"
#include "shared/data/evaluation_plan.h"
#include "shared/data/image_inputs.h"
#include "shared/evaluation/draw/shown_images.h"
#include "shared/evaluation/predict/ranks.h"
#include "shared/image/image_file.h"
#include "shared/image/jpeg.h"
#include "shared/model/device.h"

namespace retina {
namespace {

// Number of skipped files named on stderr; left_out.json has all.
constexpr std::size_t kNamedFiles = 50;
constexpr int kWritingThreads = 8;
// Side of the parts of a large image that are drawn in full size.
constexpr int kDrawnTilePx = 1024;

// --- Finding the files ---------------------------------------------------------------------------

struct FoundFiles {
  std::vector<ImageRoot> roots{};
  std::vector<FoundImage> images{};  // by name, ascending
  std::vector<SkippedFile> skipped{};
};

// The limits of an image. With --tile it need not fit into memory.
struct ImageLimits {
  std::uint64_t pixels = kDefaultMaxPixels, file_bytes = kMaxImageFileBytes;
};

// The index of an image that does not decode, and the reason.
using SkippedPlace = std::pair<std::size_t, FileProblem>;

// Encodes texts without zero bytes, one after the other, for the other ranks.
std::string join(const std::vector<std::string>& fields) {
  std::string bytes;
  for (const std::string& field : fields) {
    bytes += field;
    bytes += '\0';
  }
  return bytes;
}

std::vector<std::string> split(std::string_view bytes) {
  std::vector<std::string> fields;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\0');
    RETINA_CHECK(end != std::string_view::npos);
    fields.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
  return fields;
}

std::uint64_t number_of(const std::string& text) {
  const auto number = exact_number<std::uint64_t>(text);
  RETINA_CHECK(number, text);
  return *number;
}

std::string bytes_of(const ImageListing& listing) {
  std::vector<std::string> fields{cat(listing.roots.size())};
  for (const ImageRoot& root : listing.roots) {
    fields.insert(fields.end(), {root.folder, root.prefix});
  }
  for (const ImageFile& file : listing.files) {
    fields.insert(fields.end(), {file.name, cat(file.root)});
  }
  return join(fields);
}

ImageListing listing_of(std::string_view bytes) {
  const std::vector<std::string> fields = split(bytes);
  ImageListing listing;
  auto field = fields.begin();
  for (auto count = number_of(*field++); count > 0; --count) {
    ImageRoot& root = listing.roots.emplace_back();
    root.folder = *field++;
    root.prefix = *field++;
  }
  while (field != fields.end()) {
    ImageFile& file = listing.files.emplace_back();
    file.name = *field++;
    file.root = number_of(*field++);
  }
  return listing;
}

// `place` is the file's index in the listing.
std::vector<std::string> fields_of(std::size_t place, const LookedAt& file) {
  const FoundImage& image = file.image;
  const FileProblem problem = file.problem.value_or(FileProblem{});
  return {cat(place),      cat(image.width), cat(image.height), cat(image.orientation),
          cat(image.xxh3), problem.kind,     problem.reason};
}

FoundFiles found_files(const ImageListing& listing, std::string_view bytes) {
  constexpr std::size_t kFields = 7;
  const std::vector<std::string> fields = split(bytes);
  RETINA_CHECK(fields.size() == kFields * listing.files.size(), fields.size(), " fields");
  std::vector<LookedAt> seen(listing.files.size());
  for (auto field = fields.begin(); field != fields.end(); field += kFields) {
    const std::size_t place = number_of(field[0]);
    const ImageFile& file = listing.files.at(place);
    seen[place].image = {.name = file.name,
                         .root = file.root,
                         .width = static_cast<int>(number_of(field[1])),
                         .height = static_cast<int>(number_of(field[2])),
                         .orientation = static_cast<int>(number_of(field[3])),
                         .xxh3 = number_of(field[4])};
    if (!field[5].empty()) seen[place].problem = {.kind = field[5], .reason = field[6]};
  }
  FoundFiles found{.roots = listing.roots, .skipped = listing.skipped};
  for (LookedAt& file : seen) {
    if (file.problem) {
      found.skipped.push_back({.name = file.image.name, .problem = *file.problem});
    } else {
      found.images.push_back(std::move(file.image));
    }
  }
  return found;
}

ImageLimits limits_of(const EvalOptions& options) {
  if (options.tile.empty()) return {};
  constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();
  return {.pixels = kNone, .file_bytes = kNone};
}

// Finds and checks the files: rank 0 lists them, every rank checks its share, and all ranks get the
// whole result except for skipped folders, which only rank 0 gets. Collective. Throws as
// list_images() and look_at().
FoundFiles find_files(const EvalOptions& options, Communicator& ranks) {
  ImageListing listing;
  if (ranks.is_root()) {
    listing = list_images(options.images, options.output, [&] { report_progress(ranks); });
  }
  std::vector<SkippedFile> skipped = std::move(listing.skipped);  // rank 0 alone reports them
  listing = listing_of(ranks.broadcast(bytes_of(listing), 0));
  listing.skipped = std::move(skipped);
  std::vector<ImageFolder> folders;
  const ImageLimits limits = limits_of(options);
  for (const ImageRoot& root : listing.roots) folders.emplace_back(root.folder, limits.file_bytes);
  std::vector<std::size_t> places(listing.files.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const std::vector<std::size_t> own = share_of_rank(places, ranks);
  JpegDecoder decoder(limits.pixels);
  std::optional<Progress> progress;
  if (ranks.is_root()) {
    progress.emplace("looking", static_cast<std::int64_t>(own.size()), "files");
  }
  const std::optional<Stretch> stretch = parse_stretch(options.stretch);
  std::string bytes;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const ImageFile& file = listing.files[own[i]];
    const std::string name = listing.roots[file.root].name_in_folder(file.name);
    bytes += join(fields_of(own[i], look_at(folders[file.root], name, decoder, stretch)));
    report_progress(ranks);
    if (progress) progress->update(static_cast<std::int64_t>(i) + 1);
  }
  if (progress) progress->finish();
  std::string all;
  for (const std::string& part : ranks.gather(bytes, 0)) all += part;
  return found_files(listing, ranks.broadcast(all, 0));
}

// Returns all ranks' on rank 0, nothing elsewhere. Collective.
std::vector<SkippedPlace> gather_places(const std::vector<SkippedPlace>& own, Communicator& ranks) {
  std::vector<std::string> fields;
  for (const auto& [place, problem] : own) {
    fields.insert(fields.end(), {cat(place), problem.kind, problem.reason});
  }
  std::vector<SkippedPlace> all;
  for (const std::string& part : ranks.gather(join(fields), 0)) {
    const std::vector<std::string> got = split(part);
    RETINA_CHECK(got.size() % 3 == 0, got.size(), " fields");
    for (auto field = got.begin(); field != got.end(); field += 3) {
      all.emplace_back(number_of(field[0]), FileProblem{.kind = field[1], .reason = field[2]});
    }
  }
  return all;
}

// Hashes names and content.
std::string content_hash(const std::vector<FoundImage>& images) {
  Hasher hasher;
  for (const FoundImage& one : images) {
    hasher.update(one.name.c_str(), one.name.size() + 1);
    hasher.update(&one.xxh3, sizeof one.xxh3);
  }
  return hex64(hasher.digest());
}

// --- Files that are skipped ----------------------------------------------------------------------

// Returns the path of a file, whose name is relative to the one folder of --images, if there is
// one.
std::string path_text(const EvalOptions& options, const SkippedFile& file) {
  const bool is_in_folder = options.images.size() == 1 && is_folder(options.images.front());
  return escaped(is_in_folder ? cat(options.images.front(), "/", file.name) : file.name,
                 kWholeText);
}

void warn_of_skipped(const EvalOptions& options, const std::vector<SkippedFile>& files) {
  for (std::size_t i = 0; i < std::min(files.size(), kNamedFiles); ++i) {
    log_warning(path_text(options, files[i]),
                ": skipped: ", escaped(files[i].problem.reason, kWholeText));
  }
  if (files.size() > kNamedFiles) {
    log_warning("--images: ", files.size() - kNamedFiles, " more files are skipped");
  }
}

// Returns a text like "2 damaged, 1 format".
std::string counted_kinds(const std::vector<SkippedFile>& files) {
  std::map<std::string, int> counts;
  for (const SkippedFile& file : files) ++counts[file.problem.kind];
  std::string text;
  for (const auto& [kind, count] : counts) text += cat(text.empty() ? "" : ", ", count, " ", kind);
  return text;
}

std::string skipped_json(const std::vector<SkippedFile>& files) {
  JsonWriter json;
  json.begin_array();
  for (const SkippedFile& file : files) {
    json.begin_object()
        .field("file_name", as_utf8(file.name))
        .field("kind", file.problem.kind)
        .field("reason", as_utf8(file.problem.reason))
        .end_object();
  }
  return json.end_array().pretty_text();
}

// Returns the error for no usable file: a single file's reason; the first of several are named on
// stderr, too.
Error nothing_usable(const EvalOptions& options, const std::vector<SkippedFile>& files) {
  if (files.size() == 1) {
    return {ErrorKind::kData,
            cat(path_text(options, files[0]), ": ", escaped(files[0].problem.reason, kWholeText))};
  }
  warn_of_skipped(options, files);
  return {ErrorKind::kData,
          cat("--images ", options.images.front(), options.images.size() > 1 ? ", ...: " : ": ",
              files.empty() ? "holds no files"
                            : cat("none of the ", files.size(), " files can be used")),
          cat("give --images ", kImageFormats, " files")};
}

// --- Geographic positions ------------------------------------------------------------------------

using AllGeoTags = std::vector<std::optional<GeoTags>>;

// Returns the tags of the images; a file that is gone has none. Throws kConfig unless the images
// share one coordinate system and at least one of them has it.
AllGeoTags geo_tags_of(const FoundFiles& found) {
  AllGeoTags tags;
  std::vector<ImageInfo> infos;
  for (const FoundImage& one : found.images) {
    const ImageRoot& root = found.roots[one.root];
    const std::string path = cat(root.folder, "/", root.name_in_folder(one.name));
    tags.push_back(path_exists(path) ? read_geo_tags(path) : std::nullopt);
    infos.push_back({.file_name = one.name});
  }
  if (std::none_of(tags.begin(), tags.end(), [](const auto& one) { return one.has_value(); })) {
    throw Error(
        ErrorKind::kConfig,
        "--output-format geojson: none of the images is a GeoTIFF, which says where it lies",
        "give GeoTIFFs, or another --output-format");
  }
  shared_epsg(infos, tags);
  return tags;
}

// --- The output ---------------------------------------------------------------------------------

// Warns of images that are stored rotated, as phones store upright photographs; rank 0.
void warn_of_turned(const std::vector<FoundImage>& images, bool has_tiles) {
  const auto turned = std::count_if(images.begin(), images.end(),
                                    [](const auto& one) { return one.orientation != 1; });
  if (turned == 0) return;
  log_warning("--images: ", counted(turned, "image"), turned == 1 ? " is" : " are",
              " stored rotated (EXIF orientation) and used as stored, as coco-pack does ",
              has_tiles ? "with --tile" : "without --exif apply");
}

// The result on rank 0 and its files: the images that were used, with ids 1, 2, ... by name, and
// their detections.
class ImageFilesOutput {
 public:
  ImageFilesOutput(const EvalOptions& options, const ImageFiles& source,
                   const Categories& categories, Communicator& ranks)
      : options_(options),
        source_(source),
        categories_(categories),
        category_map_(categories),
        ranks_(ranks) {}

  // Resolves ids, skipped files and positions. `detections` and `undecodable` are the source's,
  // whose ids are place + 1; `tags`, for GeoJSON, those of all found images.
  void resolve(FoundFiles found, std::vector<Detection> detections,
               const std::vector<SkippedPlace>& undecodable, const AllGeoTags& tags);
  void publish(const EvaluationFolder& folder);

 private:
  std::size_t draw(const EvaluationFolder& folder) const;
  std::size_t draw_parts(const EvaluationFolder& folder, std::size_t i, std::size_t most) const;
  static void write_drawn(const EvaluationFolder& folder, const ImageInfo& info,
                          const std::string& part, const Image& image);
  void write_yolo(const EvaluationFolder& folder) const;
  void print(const EvaluationFolder& folder, std::size_t drawn_count) const;
  std::span<const Detection> found_on(const ImageInfo& image) const {
    return detections_of(image.id, detections_);
  }

  const EvalOptions& options_;
  const ImageFiles& source_;
  const Categories& categories_;
  const CategoryMap category_map_;
  Communicator& ranks_;
  std::vector<std::size_t> places_{};  // id - 1 -> place in the source
  std::vector<ImageInfo> images_{};    // names as the file system has them
  std::vector<Detection> detections_{};
  std::vector<SkippedFile> skipped_{};
  AllGeoTags geo_tags_{};  // tags of images_, for GeoJSON
};

void ImageFilesOutput::resolve(FoundFiles found, std::vector<Detection> detections,
                               const std::vector<SkippedPlace>& undecodable,
                               const AllGeoTags& tags) {
  detections_ = std::move(detections);
  skipped_ = std::move(found.skipped);
  std::vector<bool> used(found.images.size());
  for (const std::size_t place : visited_places(source_.index(), options_.max_images)) {
    used[place] = true;
  }
  for (const auto& [place, problem] : undecodable) {
    if (!used[place]) continue;  // reported by an earlier tile
    used[place] = false;
    skipped_.push_back({.name = found.images[place].name, .problem = problem});
  }
  std::erase_if(detections_, [&](const Detection& one) {  // even of tiles that did decode
    return !used[static_cast<std::size_t>(one.image_id - 1)];
  });
  std::sort(skipped_.begin(), skipped_.end(),
            [](const SkippedFile& a, const SkippedFile& b) { return a.name < b.name; });
  // Gives ids without gaps, also to the detections.
  std::vector<std::int64_t> id_of(used.size());
  for (std::size_t place = 0; place < used.size(); ++place) {
    if (!used[place]) continue;
    const FoundImage& image = found.images[place];
    if (!tags.empty()) geo_tags_.push_back(tags[place]);
    places_.push_back(place);
    id_of[place] = static_cast<std::int64_t>(places_.size());
    images_.push_back({.id = id_of[place],
                       .file_name = image.name,
                       .width = image.width,
                       .height = image.height});
  }
  for (Detection& one : detections_) {
    one.image_id = id_of[static_cast<std::size_t>(one.image_id - 1)];
  }
}

// Draws the first images by id with a detection above the threshold; returns the number of
// drawings.
std::size_t ImageFilesOutput::draw(const EvaluationFolder& folder) const {
  std::vector<std::size_t> chosen;  // ids - 1
  for (std::size_t i = 0; i < images_.size(); ++i) {
    if (chosen.size() == static_cast<std::size_t>(options_.draw)) break;
    const auto found = found_on(images_[i]);
    if (!found.empty() && found.front().score >= options_.draw_score) chosen.push_back(i);
  }
  if (chosen.empty()) return 0;
  JpegDecoder decoder;
  Progress progress("drawing", static_cast<std::int64_t>(chosen.size()), "images");
  std::size_t count = 0, done = 0;
  for (const std::size_t i : chosen) {
    if (count >= static_cast<std::size_t>(options_.draw)) break;
    const ImageInfo& info = images_[i];
    if (!options_.tile.empty() && std::max(info.width, info.height) > kOverviewSidePx) {
      count += draw_parts(folder, i, static_cast<std::size_t>(options_.draw) - count);
    } else {
      Image image;
      if (source_.decode(places_[i], decoder, image)) continue;  // gone since
      draw_found(image, found_on(info), options_.draw_score, category_map_);
      write_drawn(folder, info, "", image);
      ++count;
    }
    progress.update(static_cast<std::int64_t>(++done));
    report_progress(ranks_);
  }
  progress.finish();
  return count;
}

void ImageFilesOutput::write_drawn(const EvaluationFolder& folder, const ImageInfo& info,
                                   const std::string& part, const Image& image) {
  write_file_atomically(folder.drawn_path(info.id, info.file_name, part),
                        encode_jpeg(image, kDrawnQuality));
}

// Draws a large image as a smaller copy, and the tiles with most detections in full size; returns
// the number of drawings.
std::size_t ImageFilesOutput::draw_parts(const EvaluationFolder& folder, std::size_t i,
                                         std::size_t most) const {
  const ImageInfo& info = images_[i];
  const auto found = found_on(info);
  std::size_t count = 0;
  const auto draw_part = [&](const TileRect& part, const std::string& name, Image image) {
    draw_found(image, seen_in(found, part, {image.width, image.height}), options_.draw_score,
               category_map_);
    write_drawn(folder, info, name, image);
    ++count;
  };
  Image all;
  if (source_.decode_reduced(places_[i], kOverviewSidePx, all)) return count;  // gone since
  draw_part({.width = info.width, .height = info.height}, "whole", std::move(all));
  const std::vector<TileRect> tiles =
      tiles_of({info.width, info.height}, {.side_px = kDrawnTilePx, .overlap = 0});
  const std::vector<std::size_t> shown =
      busiest_tiles(found, options_.draw_score, tiles, kShownTiles);
  for (std::size_t place : shown) {
    if (count >= most) break;
    Image image;
    if (source_.decode_part(places_[i], tiles[place], image)) break;
    draw_part(tiles[place],
              tile_text({.x = tiles[place].x, .y = tiles[place].y}, image.width, image.height),
              std::move(image));
  }
  return count;
}

void ImageFilesOutput::write_yolo(const EvaluationFolder& folder) const {
  write_file_atomically(folder.yolo_data_path(), yolo_data(category_map_));
  Progress progress("writing", static_cast<std::int64_t>(images_.size()), "label files");
  constexpr std::size_t kAtOnce = 256;  // files that wait for the disk at the same time
  for (std::size_t begin = 0; begin < images_.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, images_.size() - begin);
    for_each_parallel(count, kWritingThreads, [&](std::size_t i) {
      const ImageInfo& image = images_[begin + i];
      write_file_atomically(folder.label_path(yolo_label_name(image.file_name)),
                            yolo_labels(image, found_on(image), category_map_));
    });
    progress.update(static_cast<std::int64_t>(begin + count));
    report_progress(ranks_);
  }
  progress.finish();
}

void ImageFilesOutput::publish(const EvaluationFolder& folder) {
  folder.check_present();
  write_file_atomically(folder.skipped_path(), skipped_json(skipped_));
  if (images_.empty()) throw nothing_usable(options_, skipped_);
  warn_of_skipped(options_, skipped_);
  // Drawings and labels go by the files' names as they are ...
  const std::size_t drawn_count = draw(folder);
  if (options_.writes(OutputFormat::kYolo)) write_yolo(folder);
  // ... the other files have them in UTF-8. images.json comes last and marks the end.
  for (ImageInfo& image : images_) image.file_name = as_utf8(image.file_name);
  write_results(folder.detections_path(), detections_, [&](std::int64_t image_id) {
    return std::string_view(images_[static_cast<std::size_t>(image_id - 1)].file_name);
  });
  if (options_.writes(OutputFormat::kCsv)) {
    write_file_atomically(folder.csv_path(), detections_csv(images_, detections_, category_map_));
  }
  if (options_.writes(OutputFormat::kGeojson)) {
    const DetectionsGeojson made =
        detections_geojson(images_, geo_tags_, detections_, category_map_);
    write_file_atomically(folder.geojson_path(), made.text);
    if (shared_epsg(images_, geo_tags_) == 0) {
      log_warning(folder.geojson_path(),
                  ": the images' coordinate system has no EPSG number, so that GIS programs may "
                  "take it for longitude and latitude");
    }
    if (made.left_out_count > 0) {
      log_warning(folder.geojson_path(), ": lacks the detections on ",
                  counted(made.left_out_count, "image"), ", which are not GeoTIFFs");
    }
  }
  write_file_atomically(
      folder.images_path(),
      instances_to_json({.images = images_, .annotations = {}, .categories = categories_}));
  print(folder, drawn_count);
}

void ImageFilesOutput::print(const EvaluationFolder& folder, std::size_t drawn_count) const {
  std::cout << folder.path() << ": " << counted(detections_.size(), "detection") << " on "
            << counted(images_.size(), "image") << "\n";
  if (options_.draw > 0) {
    std::cout << drawn_text(options_, folder, drawn_count);
  }
  if (!skipped_.empty()) {
    std::cout << "skipped: " << counted_kinds(skipped_) << "; reasons in " << folder.skipped_path()
              << '\n';
  }
}

// Opens the folder on rank 0, ready for the results; returns null when it holds them already.
// Throws where no image can be used.
std::unique_ptr<EvaluationFolder> open_folder(const EvalOptions& options, const Cli& cli,
                                              const FoundFiles& found, AllGeoTags& tags) {
  if (found.images.empty()) throw nothing_usable(options, found.skipped);
  warn_of_turned(found.images, !options.tile.empty());
  std::vector<std::string> names;
  for (const FoundImage& one : found.images) names.push_back(one.name);
  if (options.writes(OutputFormat::kYolo)) check_yolo_label_names(names);
  for (const std::string& name : names) {
    if (!options.writes(OutputFormat::kCsv) || one_line(name) == name) continue;
    throw Error(ErrorKind::kConfig, cat(escaped(name), ": no line of CSV holds this name"),
                "rename it");
  }
  if (options.writes(OutputFormat::kGeojson)) tags = geo_tags_of(found);
  auto folder = std::make_unique<EvaluationFolder>(options.output);
  if (!folder->begin(detection_identity(options, "images", content_hash(found.images)),
                     cli.effective(), options.overwrite, {}, names)) {
    return folder;
  }
  std::cout << folder->path() << ": already finished (--overwrite to do it again)\n";
  return nullptr;
}

}  // namespace

void detect_image_files(const EvalOptions& options, const Cli& cli, LoadedModel& model,
                        const c10::Device& device, Communicator& ranks) {
  FoundFiles found = find_files(options, ranks);
  std::unique_ptr<EvaluationFolder> folder;
  AllGeoTags tags;
  if (ranks.is_root()) folder = open_folder(options, cli, found, tags);
  if (ranks.all_reduce_max(ranks.is_root() && !folder ? 1 : 0) != 0) return;

  const ImageFiles source(found.roots, found.images,
                          {.normalisation = model.normalisation(),
                           .max_file_bytes = limits_of(options).file_bytes,
                           .stretch = parse_stretch(options.stretch)});
  const std::unique_ptr<TiledSource> tiles = tiled(source, options);
  const SampleSource& samples = tiles ? static_cast<const SampleSource&>(*tiles) : source;
  if (ranks.is_root()) {
    log_info("detecting with ", options.model, " (", model.kind(), ") on ",
             visited_text(samples.index(), options.max_images), " with ",
             counted(ranks.size(), "rank"), ", device ", device_text(device));
    const std::string warning = scale_warning(model.scale(), source.index(), options.tile);
    if (!warning.empty()) log_warning("--images: ", warning);
  }
  std::vector<SkippedPlace> undecodable;
  DetectOptions detecting = detect_options(options, device, ranks);
  detecting.on_progress = progress_line(ranks, "detecting", tiles ? "tiles" : "images");
  detecting.on_skipped = [&](std::size_t place, const FileProblem& problem) {
    undecodable.emplace_back(tiles ? tiles->image_of(place) : place, problem);
  };
  std::vector<Detection> detections =
      model.detect_all({samples, model.categories(), ranks}, detecting);
  undecodable = gather_places(undecodable, ranks);
  if (!folder) return;
  as_io_error([&] {
    ImageFilesOutput output(options, source, model.categories(), ranks);
    output.resolve(std::move(found), std::move(detections), undecodable, tags);
    output.publish(*folder);
  });
}

}  // namespace retina
