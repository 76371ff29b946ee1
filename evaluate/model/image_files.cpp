#include "evaluate/model/image_files.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "evaluate/detection_formats.h"
#include "evaluate/evaluation_folder.h"
#include "evaluate/model/found_files.h"
#include "evaluate/model/text_fields.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/base/progress.h"
#include "shared/coco/instances.h"
#include "shared/data/image_inputs.h"
#include "shared/evaluation/explain/shown_images.h"
#include "shared/evaluation/predict/visits.h"
#include "shared/image/image_file.h"
#include "shared/image/jpeg.h"
#include "shared/model/device.h"

namespace retina {
namespace {

// So many skipped files are named on stderr; left_out.json has all.
constexpr std::size_t kNamedFiles = 50;
constexpr int kWritingThreads = 8;

// By names and content.
std::string content_hash(const std::vector<FoundImage>& images) {
  Hasher hasher;
  for (const FoundImage& one : images) {
    hasher.update(one.name.c_str(), one.name.size() + 1);
    hasher.update(&one.xxh3, sizeof one.xxh3);
  }
  return hex64(hasher.digest());
}

// --- Files that are left out --------------------------------------------------------------------

using SkippedPlace = std::pair<std::size_t, FileProblem>;  // an image that does not decode

// All ranks' on rank 0. Collective.
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

// The path of a file whose name is relative to the one folder of --images, if there is one.
std::string path_text(const EvalOptions& options, const SkippedFile& file) {
  const bool is_in_folder = options.images.size() == 1 && is_folder(options.images.front());
  return escaped(is_in_folder ? cat(options.images.front(), "/", file.name) : file.name,
                 kWholeText);
}

void warn_of_skipped(const EvalOptions& options, const std::vector<SkippedFile>& files) {
  for (std::size_t i = 0; i < std::min(files.size(), kNamedFiles); ++i) {
    log_warning(path_text(options, files[i]),
                ": left out: ", escaped(files[i].problem.reason, kWholeText));
  }
  if (files.size() > kNamedFiles) {
    log_warning("--images: ", files.size() - kNamedFiles, " more files are left out");
  }
}

// "2 damaged, 1 format".
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

// Of one file its reason; of several, the first are named on stderr, too.
Error nothing_usable(const EvalOptions& options, const std::vector<SkippedFile>& files) {
  if (files.size() == 1) {
    return {ErrorKind::kData,
            cat(path_text(options, files[0]), ": ", escaped(files[0].problem.reason, kWholeText))};
  }
  warn_of_skipped(options, files);
  const bool is_one = options.images.size() == 1;
  const std::string subject = is_one ? options.images.front() : "--images";
  return {ErrorKind::kData,
          files.empty() ? cat(subject, ": holds no files")
                        : cat(subject, ": none of ", is_one ? "its " : "the ", files.size(),
                              " files can be used"),
          cat("give --images ", kImageFormats, " files")};
}

// --- The output ---------------------------------------------------------------------------------

// What is known on rank 0 in the end: the images that were used, with ids 1, 2, ... by name.
struct Outcome {
  std::vector<std::size_t> places{};  // id - 1 -> place in the source
  std::vector<ImageInfo> images{};    // names as they are
  std::vector<Detection> detections{};
  std::vector<SkippedFile> skipped{};
};

Outcome settle(const EvalOptions& options, const ImageSource& source, FoundFiles found,
               std::vector<Detection> detections, const std::vector<SkippedPlace>& undecodable) {
  Outcome outcome{.detections = std::move(detections), .skipped = std::move(found.skipped)};
  std::vector<bool> used(found.images.size());
  for (const std::size_t place :
       visited_places(source.index(), {.max_images = options.max_images})) {
    used[place] = true;
  }
  for (const auto& [place, problem] : undecodable) {
    used[place] = false;
    outcome.skipped.push_back({.name = found.images[place].name, .problem = problem});
  }
  std::vector<std::int64_t> id_of(used.size());
  for (std::size_t place = 0; place < used.size(); ++place) {
    if (!used[place]) continue;
    const FoundImage& image = found.images[place];
    outcome.places.push_back(place);
    id_of[place] = static_cast<std::int64_t>(outcome.places.size());
    outcome.images.push_back({.id = id_of[place],
                              .file_name = image.name,
                              .width = image.width,
                              .height = image.height});
  }
  for (Detection& one : outcome.detections) {
    one.image_id = id_of[static_cast<std::size_t>(one.image_id - 1)];  // the source's: place + 1
  }
  std::sort(outcome.skipped.begin(), outcome.skipped.end(),
            [](const SkippedFile& a, const SkippedFile& b) { return a.name < b.name; });
  return outcome;
}

// The first images by id with a detection worth drawing; returns how many.
std::size_t draw(const EvalOptions& options, const ImageSource& source, const Outcome& outcome,
                 const EvaluationFolder& folder, Communicator& ranks) {
  std::vector<std::size_t> chosen;  // ids - 1
  for (std::size_t i = 0; i < outcome.images.size(); ++i) {
    if (chosen.size() == static_cast<std::size_t>(options.draw)) break;
    const auto found = detections_of(outcome.images[i].id, outcome.detections);
    if (!found.empty() && found.front().score >= options.draw_score) chosen.push_back(i);
  }
  if (chosen.empty()) return 0;
  const CategoryMap categories(source.categories());
  JpegDecoder decoder;
  Progress progress("drawing", static_cast<std::int64_t>(chosen.size()), "images");
  std::size_t count = 0;
  for (const std::size_t i : chosen) {
    const ImageInfo& info = outcome.images[i];
    Image image;
    if (source.decode(outcome.places[i], decoder, image)) continue;  // gone since
    draw_found(image, detections_of(info.id, outcome.detections), options.draw_score, categories);
    write_file_atomically(folder.drawn_path(info.id, info.file_name),
                          encode_jpeg(image, kDrawnQuality));
    progress.update(static_cast<std::int64_t>(++count));
    tell_progress(ranks);
  }
  progress.finish();
  return count;
}

void write_yolo(const ImageSource& source, const Outcome& outcome, const EvaluationFolder& folder,
                Communicator& ranks) {
  const CategoryMap categories(source.categories());
  write_file_atomically(folder.yolo_data_path(), yolo_data(categories));
  Progress progress("writing", static_cast<std::int64_t>(outcome.images.size()), "label files");
  constexpr std::size_t kAtOnce = 256;  // each waits for the disk: they do so together
  for (std::size_t begin = 0; begin < outcome.images.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, outcome.images.size() - begin);
    for_each_parallel(count, kWritingThreads, [&](std::size_t i) {
      const ImageInfo& image = outcome.images[begin + i];
      write_file_atomically(
          folder.label_path(yolo_label_name(image.file_name)),
          yolo_labels(image, detections_of(image.id, outcome.detections), categories));
    });
    progress.update(static_cast<std::int64_t>(begin + count));
    tell_progress(ranks);
  }
  progress.finish();
}

std::string best_score_text(double best_score) {
  return best_score < 0 ? "" : cat(" (the best is ", fixed(best_score, 3), ")");
}

// Rank 0. Phones store upright photographs so.
void warn_of_turned(const std::vector<FoundImage>& images) {
  const auto turned = std::count_if(images.begin(), images.end(),
                                    [](const auto& one) { return one.orientation != 1; });
  if (turned == 0) return;
  log_warning("--images: ", counted(turned, "image"), turned == 1 ? " is" : " are",
              " stored turned (EXIF orientation) and taken as stored, as coco-pack does without "
              "--exif apply");
}

void publish(const EvalOptions& options, const ImageSource& source, const EvaluationFolder& folder,
             Outcome outcome, Communicator& ranks) {
  folder.check_present();
  write_file_atomically(folder.skipped_path(), skipped_json(outcome.skipped));
  if (outcome.images.empty()) throw nothing_usable(options, outcome.skipped);
  warn_of_skipped(options, outcome.skipped);
  double best_score = -1;
  for (const Detection& one : outcome.detections) best_score = std::max(best_score, one.score);
  const std::size_t drawn_count = draw(options, source, outcome, folder, ranks);
  if (options.output_format == OutputFormat::kYolo) write_yolo(source, outcome, folder, ranks);
  for (ImageInfo& image : outcome.images) image.file_name = as_utf8(image.file_name);
  write_results(folder.detections_path(), outcome.detections, [&](std::int64_t image_id) {
    return std::string_view(outcome.images[static_cast<std::size_t>(image_id - 1)].file_name);
  });
  if (options.output_format == OutputFormat::kCsv) {
    write_file_atomically(folder.csv_path(), detections_csv(outcome.images, outcome.detections,
                                                            CategoryMap(source.categories())));
  }
  const std::size_t image_count = outcome.images.size();
  write_file_atomically(folder.images_path(),
                        instances_to_json({.images = std::move(outcome.images),
                                           .annotations = {},
                                           .categories = source.categories()}));
  std::cout << folder.path() << ": " << counted(outcome.detections.size(), "detection") << " on "
            << counted(image_count, "image") << "\n";
  if (drawn_count > 0) {
    std::cout << "drawn: " << drawn_count << " in " << folder.path() << "/drawn\n";
  } else if (options.draw > 0) {
    std::cout << "drawn: none, no score reaches --draw-score " << shortest(options.draw_score)
              << best_score_text(best_score) << '\n';
  }
  if (!outcome.skipped.empty()) {
    std::cout << "left out: " << counted_kinds(outcome.skipped) << "; reasons in "
              << folder.skipped_path() << '\n';
  }
}

}  // namespace

void detect_image_files(const EvalOptions& options, const Cli& cli, LoadedModel& model,
                        const c10::Device& device, Communicator& ranks) {
  FoundFiles found = find_files(options, ranks);
  std::unique_ptr<EvaluationFolder> folder;
  bool is_done = false;
  if (ranks.is_root()) {
    if (found.images.empty()) throw nothing_usable(options, found.skipped);
    warn_of_turned(found.images);
    std::vector<std::string> names;
    for (const FoundImage& one : found.images) names.push_back(one.name);
    if (options.output_format == OutputFormat::kYolo) check_yolo_label_names(names);
    folder = std::make_unique<EvaluationFolder>(options.output);
    is_done =
        folder->begin_images(detection_identity(options, "images", content_hash(found.images)),
                             cli.effective(), options.overwrite, names);
    if (is_done) {
      std::cout << folder->path() << ": already finished (--overwrite to do it again)\n";
    } else {
      log_info("detecting with ", options.model, " (", model.kind(), ") on ",
               counted(options.max_images > 0
                           ? std::min<std::size_t>(found.images.size(),
                                                   static_cast<std::size_t>(options.max_images))
                           : found.images.size(),
                       "image"),
               " with ", counted(ranks.size(), "rank"), ", device ", device_text(device));
    }
  }
  if (ranks.all_reduce_max(is_done ? 1 : 0) != 0) return;

  const ImageFiles source(found.roots, found.images, model.categories());
  std::unique_ptr<Progress> progress;
  std::vector<SkippedPlace> undecodable;
  DetectOptions detecting = detect_options(options, device, ranks);
  detecting.on_progress = [&](std::int64_t done, std::int64_t total) {
    if (!ranks.is_root()) return;
    if (!progress) progress = std::make_unique<Progress>("detecting", total, "images");
    progress->update(done);
  };
  detecting.on_skipped = [&](std::size_t place, const FileProblem& problem) {
    undecodable.emplace_back(place, problem);
  };
  std::vector<Detection> detections = model.detect_all(source, ranks, detecting);
  if (progress) progress->finish();
  undecodable = gather_places(undecodable, ranks);
  if (!folder) return;
  as_io_error([&] {
    publish(options, source, *folder,
            settle(options, source, std::move(found), std::move(detections), undecodable), ranks);
  });
}

}  // namespace retina
