#include "preprocess/packer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "preprocess/formats/class_names.h"
#include "preprocess/image_check.h"
#include "preprocess/merge.h"
#include "preprocess/output_folder.h"
#include "preprocess/pack_plan.h"
#include "preprocess/processes.h"
#include "preprocess/set_builder.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"
#include "shared/coco/box_warnings.h"
#include "shared/coco/instances.h"
#include "shared/shard/damaged.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

void check_image_folder(const PackOptions& options) {
  const bool may_be_file = options.format == AnnotationFormat::kCifar10;
  if (may_be_file && path_exists(options.images)) return;
  require_folder(options.images, "check --images");
}

// A set among the folders of classes would be a class the next time.
void check_output_is_outside(const PackOptions& options) {
  if (options.format != AnnotationFormat::kFolders) return;
  std::error_code code, other_code;
  const auto root = std::filesystem::weakly_canonical(options.images, code);
  const auto output = std::filesystem::weakly_canonical(options.output, other_code);
  if (code || other_code) return;
  const auto way = output.lexically_relative(root);
  if (way.empty() || *way.begin() == "..") return;
  throw Error(ErrorKind::kConfig,
              cat(options.output, ": lies in the images' folder ", options.images,
                  ", whose folders are the classes"),
              "choose another --output");
}

// Returns what is known of the manifest before the images are read. COCO's one large file is read
// later: a finished set only needs its hash.
Manifest begun_manifest(const PackOptions& options, const std::optional<ReadAnnotations>& read) {
  return {.task = task_of(options.format),
          .annotations_size_bytes = read ? read->size_bytes : file_size_bytes(options.annotations),
          .annotations_xxh3 = read ? read->xxh3 : xxh3_file(options.annotations),
          .options = options.manifest_options()};
}

// Opens the set in the output folder for `use(set)`; errors get a hint on what to do.
template <class Use>
auto with_old_set(const PackOptions& options, const Use& use) {
  try {
    return use(ShardSet(options.output, options.scratch));
  } catch (const Error& error) {
    const bool is_about_the_set =
        error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kNoInput;
    if (!is_about_the_set || is_of_newer_version(error)) throw;
    throw Error(error.kind(), error.what(), "restore it, or pack it again with --overwrite");
  }
}

// The input of a packing, read and checked.
struct PackInput {
  Manifest begun{};
  PackPlan plan{};
};

// The result when the output folder holds a set that an earlier run finished from this input.
// Throws kConfig when it was made from another one.
std::optional<PackResult> finished_result(const PackOptions& options, const PackInput& input) {
  if (!holds_set(options.output)) return std::nullopt;
  std::vector<QuarantinedImage> quarantined;
  const Manifest manifest = with_old_set(options, [&](const ShardSet& set) {
    check_same_input(options.output, set.manifest(), input.begun);
    const std::string changed =
        changed_images(options.manifest_options(), options.image_source(), input.plan, set);
    if (!changed.empty()) {
      throw Error(ErrorKind::kConfig,
                  cat(options.output,
                      ": the input images have changed since the set was packed: ", changed),
                  kOtherInputHint);
    }
    quarantined = set.read_quarantine();
    return set.manifest();
  });
  if (options.on_bad_image == BadImage::kFail && !quarantined.empty()) {
    fail_on_bad_image(quarantined.front());
  }
  return PackResult{.manifest = manifest, .was_finished = true};
}

// Two ids are two classes and train well (Roboflow's exports name a class like its supercategory),
// so this is not an error.
std::string equal_names(const CategoryMap& categories) {
  const auto labels = categories.equal_names();
  if (!labels) return "";
  const Category& first = categories.at(labels->first);
  return cat(
      "categories ", first.id, " and ", categories.at(labels->second).id, " are both named \"",
      first.name,
      "\"; they stay two classes, but --init matches classes by name and cannot tell them apart");
}

void warn_of_notes(const PackOptions& options, const PackInput& input) {
  for (const std::string& note : input.begun.notes) log_warning(options.input(), ": ", note);
}

// COCO is the default, also for those who did not ask for it.
void check_format(const PackOptions& options) {
  const std::string& path = options.annotations;
  const std::string suffix = lower_case(std::filesystem::path(path).extension().string());
  constexpr const char* kOtherFormats[] = {".csv", ".yaml", ".yml", ".geojson", ".xml"};
  const bool is_other =
      is_folder(path) || std::find(std::begin(kOtherFormats), std::end(kOtherFormats), suffix) !=
                             std::end(kOtherFormats);
  if (options.format != AnnotationFormat::kCoco || !is_other) return;
  throw Error(ErrorKind::kData,
              cat(path, is_folder(path) ? ": is a folder" : ": does not have a .json extension",
                  ", want COCO's instances JSON"),
              "give --format voc, csv, yolo, xview or dota where it is that");
}

// Parts that others have packed go with --overwrite alone.
void check_has_no_parts(const PackOptions& options) {
  const std::vector<PackPart> parts = begun_parts(options.output);
  if (parts.empty()) return;
  if (options.overwrite) return remove_parts(options.output);
  throw Error(ErrorKind::kConfig,
              cat(options.output, ": is packed in ", counted(parts.front().count, "part")),
              cat("pack them with --part, then --merge ", options.output,
                  "; or start afresh with --overwrite"));
}

// Bad annotations are found before the output folder is touched.
PackInput read_input(const PackOptions& options, bool may_be_finished) {
  const bool is_coco = options.format == AnnotationFormat::kCoco;
  std::optional<ReadAnnotations> read;
  if (!is_coco) {
    check_image_folder(options);
    read = read_annotations(options.annotation_source());
  }
  PackInput input{.begun = begun_manifest(options, read)};
  if (may_be_finished) {  // asked before a large JSON is read
    with_old_set(options, [&](const ShardSet& set) {
      check_same_input(options.output, set.manifest(), input.begun);
    });
  }
  PlanBoxes boxes;
  if (!read) {
    read.emplace();
    read->instances = read_instances_into(boxes, options.annotations);
  } else {
    boxes = PlanBoxes(read->instances);
  }
  Instances& instances = read->instances;
  if (options.side && !may_be_finished) {  // a finished set knows its images
    keep_side(instances, boxes, read->image_labels,
              {.side = *options.side,
               .by = options.split_by,
               .input = options.input(),
               .images = options.image_source(),
               .thread_count = options.thread_count()});
  }

  std::vector<std::string>& notes = input.begun.notes;
  notes = box_notes(instances.images, boxes);
  notes.insert(notes.end(), {annotation_0_warning(instances.images, boxes),
                             shared_files(instances.images), rotated_boxes(instances)});
  if (is_coco && !may_be_finished) {
    warn_of_alike_classes(options.input(), instances.categories, boxes.counts(), "boxes");
  }
  input.plan = make_pack_plan(std::move(instances), std::move(boxes), read->image_labels);
  input.begun.categories = input.plan.categories.all();
  notes.insert(notes.begin(), equal_names(input.plan.categories));
  std::erase(notes, "");
  return input;
}

// The result when another run has done it all until this one had the lock, or left it to publish.
std::optional<PackResult> result_of_another(const PackOptions& options, const PackInput& input) {
  check_is_ours(options.output);
  const bool was_whole = as_io_error([&] { return publish_whole_set(options.output); });
  const bool is_part = !options.part.empty();
  // A finished part stays with --overwrite, too, which is about the set: an array of jobs may be
  // started again.
  if (options.overwrite && !was_whole && !(is_part && holds_set(options.output))) return {};
  try {
    return finished_result(options, input);
  } catch (const Error& error) {
    const bool is_another_set = error.kind() == ErrorKind::kConfig || is_part;
    if (!options.overwrite || !is_another_set) throw;
    return std::nullopt;
  }
}

// Packs the input into options.output.
PackResult pack_into(const PackOptions& options, const PackInput& input) {
  const OutputFolder folder(options.output);
  if (const auto result = result_of_another(options, input)) return *result;
  if (options.part.empty()) check_has_no_parts(options);
  if (options.parts == 0) warn_of_notes(options, input);  // else it is done
  return build_set(options, input.begun, input.plan);
}

// A part is a set of its own in the journal of the whole one.
PackResult pack_part(const PackOptions& options, PackInput& whole) {
  const PackPart part = *options.part_of();
  check_part_count(options.output, part.count);
  if (options.parts == 0 && !options.overwrite && is_unpublished(options.output)) {
    throw Error(ErrorKind::kConfig,
                cat(options.output, ": was interrupted when its set was whole, but not published"),
                cat("run coco-pack --merge ", options.output));
  }
  const bool is_new = !path_exists(options.output);
  PackOptions of_part = options;
  of_part.output = part_folder(options.output, part);
  try {
    PackInput input{.begun = whole.begun, .plan = take_part(whole.plan, part)};
    input.begun.options.pack_part = part.text();
    if (options.parts == 0) whole.plan = {};  // else it is shared memory
    return pack_into(of_part, input);
  } catch (const Error&) {  // where nothing was kept, the folders go again
    remove_file(journal_folder(options.output));
    if (is_new) remove_file(options.output);
    throw;
  }
}

// All parts in processes of their own, which share the memory of the input, and their merge.
PackResult pack_in_processes(const PackOptions& options, PackInput input) {
  if (is_unpublished(options.output)) {
    const OutputFolder folder(options.output);
    if (const auto result = result_of_another(options, input)) return *result;
  }
  warn_of_notes(options, input);
  const int count = options.parts;
  check_part_count(options.output, static_cast<std::size_t>(count));
  run_processes(count, [&](int i) {
    PackOptions one = options;
    one.part = cat(i + 1, "/", count);
    one.threads = std::max(1, options.thread_count() / count);
    set_log_name("coco-pack part " + one.part);
    pack_part(one, input);
  });
  input = {};
  return merge_parts({.output = options.output,
                      .scratch = options.scratch,
                      .overwrite = options.overwrite,
                      .thread_count = options.thread_count()});
}

}  // namespace

PackResult pack(const PackOptions& options) {
  check_format(options);
  check_output_is_outside(options);
  check_is_ours(options.output);
  const bool may_be_finished = !options.overwrite && holds_set(options.output);
  if (!may_be_finished) check_image_folder(options);  // a finished set does not need it
  PackInput input = read_input(options, may_be_finished);

  // Before the folder is locked: a finished set may lie where nothing can be written.
  if (!options.overwrite) {
    if (const auto result = finished_result(options, input)) {
      remove_leftovers(options.output);
      return *result;
    }
  }

  if (!options.part.empty()) return pack_part(options, input);
  if (options.parts > 0) return pack_in_processes(options, std::move(input));
  return pack_into(options, input);
}

}  // namespace retina
