#include "preprocess/packer.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "preprocess/formats/class_names.h"
#include "preprocess/image_check.h"
#include "preprocess/look_alikes.h"
#include "preprocess/ordered_work.h"
#include "preprocess/output_folder.h"
#include "preprocess/pack_journal.h"
#include "preprocess/pack_plan.h"
#include "preprocess/page/data_page.h"
#include "preprocess/record_maker.h"
#include "preprocess/space_check.h"
#include "preprocess/tally.h"
#include "shared/base/counted.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/mount.h"
#include "shared/base/printable.h"
#include "shared/base/progress.h"
#include "shared/base/scratch.h"
#include "shared/base/stop_signal.h"
#include "shared/base/text_encoding.h"
#include "shared/coco/doubts.h"
#include "shared/coco/instances.h"
#include "shared/shard/shard_file.h"
#include "shared/shard/shard_set.h"
#include "shared/shard/shard_writer.h"

namespace retina {
namespace {

[[noreturn]] void fail_on_bad_image(const QuarantinedImage& bad) {
  throw Error(
      ErrorKind::kData, cat(escaped(bad.file_name), ": image ", bad.image_id, ": ", bad.reason),
      bad.hint.empty() ? "fix the image, or leave such images out with --on-bad-image quarantine"
                       : bad.hint);
}

void check_image_folder(const PackOptions& options) {
  if (is_folder(options.images)) return;
  const bool may_be_file = options.format == AnnotationFormat::kCifar10;
  if (may_be_file && path_exists(options.images)) return;
  throw Error(ErrorKind::kNoInput,
              cat(options.images, may_be_file ? ": does not exist" : ": is not a folder"),
              "check --images");
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

// COCO's one large file is read later: a finished set only needs its hash.
PackIdentity identity_of_input(const PackOptions& options,
                               const std::optional<ReadAnnotations>& read) {
  PackIdentity identity{.options = options.manifest_options()};
  identity.annotations_size_bytes = read ? read->size_bytes : file_size_bytes(options.annotations);
  identity.annotations_xxh3 = read ? read->xxh3 : xxh3_file(options.annotations);
  return identity;
}

// Opens the set in the output folder for `use(set)`; errors get a hint on what to do.
template <class Use>
auto with_old_set(const PackOptions& options, const Use& use) {
  try {
    return use(ShardSet(options.output, options.scratch));
  } catch (const Error& error) {
    const bool is_newer = error.hint().rfind("update", 0) == 0;
    const bool is_about_the_set =
        error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kNoInput;
    if (!is_about_the_set || is_newer) throw;
    throw Error(error.kind(), error.what(), "restore it, or pack it again with --overwrite");
  }
}

// The set in the output folder when an earlier run finished it from this input. Throws kConfig when
// it was made from another one.
std::optional<Manifest> finished_set(const PackOptions& options, const PackIdentity& identity,
                                     const PackPlan& plan) {
  if (!holds_set(options.output)) return std::nullopt;
  std::vector<QuarantinedImage> left_out;
  const Manifest manifest = with_old_set(options, [&](const ShardSet& set) {
    check_same_identity(options.output, identity_of(set.manifest()), identity);
    const std::string changed = changed_images(options, plan, set);
    if (!changed.empty()) throw other_options(options.output, changed);
    left_out = set.read_quarantine();
    return set.manifest();
  });
  if (options.on_bad_image == BadImage::kFail && !left_out.empty())
    fail_on_bad_image(left_out.front());
  return manifest;
}

struct PageSource {
  const DataFacts& facts;
  const Manifest& manifest;
  const std::vector<QuarantinedImage>& quarantined;
  const PackPlan& plan;
  int thread_count = 1;
};

std::string data_page(const PageSource& source) {
  std::unordered_map<std::int64_t, const std::string*> names;
  for (const PlannedImage& image : source.plan.images) {
    names.emplace(image.id, &image.file_name);
  }
  return render_data_page({.facts = source.facts,
                           .manifest = source.manifest,
                           .quarantined = source.quarantined,
                           .file_name = [&](std::int64_t id) { return *names.at(id); },
                           .thread_count = source.thread_count});
}

// The set is the product: without room for its page it is published all the same, and the next call
// of the same command tries again.
void warn_of_missing_page(const Error& error) {
  log_warning("the page of the data is not written: ", error.what());
}

// Nothing where it fails.
std::optional<std::string> try_data_page(const PageSource& source) {
  try {
    return data_page(source);
  } catch (const Error& error) {
    warn_of_missing_page(error);
    return std::nullopt;
  }
}

// Into the journal of `output`.
void write_data_page(const std::string& output, const std::optional<std::string>& page) {
  try {
    if (page) return write_file_atomically(journal_folder(output) + "/" + kDataPageFile, *page);
  } catch (const Error& error) {
    warn_of_missing_page(error);
  }
  const std::string old = output + "/" + kDataPageFile;  // soon of another set
  if (path_exists(old) && is_data_page(old)) remove_file(old);
}

// For a finished set that has none: an earlier coco-pack made it, or the disk was full.
void restore_data_page(const PackOptions& options, const PackPlan& plan) {
  const std::string path = options.output + "/" + kDataPageFile;
  if (path_exists(path)) return;
  try {
    AtomicFile file(path);  // before all records are read: the folder may be read-only
    log_info(path, ": is missing; reading the set to write it");
    const ShardSet set(options.output, options.scratch);
    DataFacts facts(set.manifest().categories.size());
    for (std::size_t place = 0; place < set.index().size(); ++place) {
      const Record record = set.read(place);
      facts.add(record, xxh3(record.image));
    }
    const std::vector<QuarantinedImage> quarantined = set.read_quarantine();
    file.write(data_page({.facts = facts,
                          .manifest = set.manifest(),
                          .quarantined = quarantined,
                          .plan = plan,
                          .thread_count = options.thread_count()}));
    file.commit();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCannotCreate) warn_of_missing_page(error);
  }
}

class Packer {
 public:
  Packer(const PackOptions& options, const PackIdentity& identity, const PackPlan& plan)
      : options_(options),
        identity_(identity),
        plan_(plan),
        journal_(options.output, identity, options.overwrite),
        scratch_folder_(scratch_folder(options)),
        scratch_(scratch_folder_, options.output),
        tally_(plan.categories.all().size()),
        facts_(plan.categories.all().size()) {}

  PackResult run() {
    try {
      return as_io_error([&] { return run_to_the_end(); });
    } catch (const Error& error) {
      // What was written a moment ago is missing: the fault is the output's mount, not an input.
      if (error.kind() == ErrorKind::kNoInput) check_journal_present(options_.output);
      // Without a finished shard there is nothing to continue.
      writer_.reset();
      await_finished_shard_or_none();
      if (shards_.empty() && !may_hold_shards_) remove_journal(options_.output);
      throw;
    }
  }

 private:
  static std::string scratch_folder(const PackOptions& options) {
    if (!options.scratch.empty() || can_map_files(journal_folder(options.output))) {
      return options.scratch;
    }
    log_warning(options.output,
                ": this file system cannot map files into memory; shards are built in ",
                default_scratch(), " (--scratch chooses another place)");
    return default_scratch();
  }

  PackResult run_to_the_end() {
    reuse_finished_shards();
    const std::size_t reused = shards_.size();
    if (next_image_ == 0) check_free_space(options_, plan_, scratch_folder_);
    if (next_image_ < plan_.images.size()) make_shards();
    name_look_alikes(quarantined_, options_.images_folder(), plan_.images.size());
    tell_respelled();
    if (index_.empty()) {
      throw Error(ErrorKind::kData,
                  cat(options_.images,
                      plan_.images.size() == 1 ? std::string(": its only image is not usable (")
                                               : cat(": none of the ", plan_.images.size(),
                                                     " images is usable (the first: "),
                      escaped(quarantined_.at(0).file_name), ": ", quarantined_.at(0).reason, ")"),
                  commonest_hint().value_or("check --images"));
    }
    PackResult result{.manifest = publish(), .reused_shards = reused};
    result.far_from_anchors = count_uncovered(facts_.box_sizes(), default_anchor_sizes()).all();
    result.first_degenerate = tally_.first_degenerate;
    return result;
  }

  // A shard counts as finished when its note is whole, its bytes are those of the note and its
  // images are today's; what it holds is read from the shard itself.
  void reuse_finished_shards() {
    const std::vector<FinishedShard> notes = journal_.read();
    may_hold_shards_ = !notes.empty();
    for (const FinishedShard& note : notes) {
      if (!reuse(note)) break;
    }
    journal_.forget_from(shards_.size());
    may_hold_shards_ = false;
    if (!shards_.empty()) {
      log_info("continuing: ", counted(shards_.size(), "shard"),
               shards_.size() == 1 ? " is" : " are", " finished, image ", next_image_, " of ",
               plan_.images.size());
    }
  }

  bool reuse(const FinishedShard& note) {
    const std::string path = journal_shard_path(options_.output, shards_.size());
    if (!path_exists(path) || file_size_bytes(path) != note.shard.file.size_bytes ||
        xxh3_file(path) != note.shard.file.xxh3) {
      return false;
    }
    if (!has_images_of(note)) return false;
    const std::filesystem::path file(path);
    ManifestShard shard = note.shard;
    shard.file.name = file.filename().string();
    const ShardFile reader(file.parent_path().string(), shard, scratch_folder_);
    for (std::size_t place = 0; place < reader.size(); ++place) {
      const Record record = decode_record(reader.bytes(place), cat(path, ": record ", place));
      count(record, xxh3(record.image), static_cast<std::uint32_t>(place));
    }
    for (const QuarantinedImage& bad : note.quarantined) quarantine(bad);
    unsaved_quarantined_ = 0;
    shards_.push_back(note.shard);
    next_image_ = note.next_image;
    return true;
  }

  bool has_images_of(const FinishedShard& note) const {
    if (const auto changed = changed_image(options_, plan_, next_image_, note)) {
      if (changed->was_packed && !options_.overwrite) {
        throw other_options(options_.output, cat("images (", changed->what, ")"));
      }
      log_info("finished shards from number ", shards_.size(),
               " on are packed again: ", changed->what);
      return false;
    }
    if (options_.on_bad_image != BadImage::kFail || note.quarantined.empty()) return true;
    if (options_.overwrite) return false;
    const QuarantinedImage& bad = note.quarantined.front();
    throw Error(ErrorKind::kData,
                cat(escaped(bad.file_name),
                    ": was left out by the run that this one continues: ", bad.reason),
                "fix it, or continue with --on-bad-image quarantine");
  }

  void make_shards() {
    std::vector<RecordMaker> makers;
    for (int thread = 0; thread < options_.thread_count(); ++thread) {
      makers.emplace_back(RecordMakerOptions{.images_folder = options_.images_folder(),
                                             .format = options_.format,
                                             .pack = options_.manifest_options()});
    }
    OrderedWork<MadeRecord> work(
        {.first = next_image_,
         .count = plan_.images.size(),
         .thread_count = options_.thread_count()},
        [&](int thread, std::size_t image) {
          return makers[static_cast<std::size_t>(thread)].make(plan_.images[image]);
        });
    Progress progress("packing", static_cast<std::int64_t>(plan_.images.size()), "images");
    for (; next_image_ < plan_.images.size(); ++next_image_) {
      stop_when_asked();
      progress.update(
          static_cast<std::int64_t>(next_image_),
          cat(counted(open_shard(), "shard"), ", ", quarantined_.size(), " quarantined"));
      const MadeRecord made = work.take();
      if (made.bad) {
        quarantine(*made.bad);
      } else {
        append(made);
      }
    }
    progress.update(static_cast<std::int64_t>(next_image_));
    finish_shard();
    progress.finish();
  }

  std::optional<std::string> commonest_hint() const {
    const auto hints = count_hints(quarantined_);
    return hints.empty() ? std::nullopt : std::optional(hints.front().hint);
  }

  void tell_respelled() const {
    if (respelled_count_ == 0) return;
    log_warning(options_.images, ": ", respelled_count_,
                respelled_count_ == 1 ? " file was" : " files were",
                " found under another spelling of the annotations' name (", first_respelled_, ")");
  }

  void append(const MadeRecord& made) {
    if (!made.found_as.empty() && respelled_count_++ == 0) {
      first_respelled_ = describe_spelling(plan_.images[next_image_].file_name, made.found_as);
    }
    if (writer_ && !writer_->has_space(made.bytes.size())) finish_shard();
    if (!writer_) {
      const std::string path = journal_shard_path(options_.output, open_shard());
      writer_ =
          std::make_unique<ShardWriter>(path, options_.shard_size_bytes, scratch_.build_path(path));
    }
    const std::uint32_t place = writer_->append(made.bytes, made.bytes_xxh3);
    Record record = made.record;
    record.image = {};
    record.image = std::string_view(made.bytes).substr(record_size_bytes(record));
    count(record, made.image_xxh3, place);
    sources_.push_back(made.source);
  }

  // Disk and checks take their time: meanwhile the next shard is filled. One at a time, in order.
  void finish_shard() {
    if (!writer_) return;
    await_finished_shard();
    FinishedShard note;
    note.next_image = next_image_;
    note.quarantined = {quarantined_.end() - unsaved_quarantined_, quarantined_.end()};
    note.sources = std::exchange(sources_, {});
    finishing_ = std::async([this, writer = std::move(writer_), note = std::move(note),
                             number = shards_.size()]() mutable {
      note.shard = writer->finish();
      writer.reset();
      journal_.add(number, note);
      return note.shard;
    });
    unsaved_quarantined_ = 0;
  }

  void await_finished_shard() {
    if (finishing_.valid()) shards_.push_back(finishing_.get());
  }
  // Where another error is to be told.
  void await_finished_shard_or_none() {
    try {
      await_finished_shard();
    } catch (const Error&) {
    }
  }

  // Number of the shard that is being filled.
  std::size_t open_shard() const { return shards_.size() + (finishing_.valid() ? 1 : 0); }

  void count(const Record& record, std::uint64_t image_xxh3, std::uint32_t place) {
    tally_.add(record);
    facts_.add(record, image_xxh3);
    index_.push_back(
        index_entry(record, {.shard = static_cast<std::uint32_t>(open_shard()), .place = place}));
  }

  void quarantine(const QuarantinedImage& bad) {
    if (options_.on_bad_image == BadImage::kFail) {
      std::vector<QuarantinedImage> first = {bad};
      name_look_alikes(first, options_.images_folder(), 1);
      fail_on_bad_image(first.front());
    }
    log_debug(bad.file_name, ": left out: ", bad.reason);
    quarantined_.push_back(bad);
    ++unsaved_quarantined_;
  }

  void stop_when_asked() {
    if (stop_signal() == 0) return;
    await_finished_shard();
    throw Error(ErrorKind::kInterrupted,
                cat(options_.output, ": stopped by signal ", stop_signal(), " with ",
                    counted(shards_.size(), "shard"), " finished"),
                "run the same command again to continue");
  }

  void write_file_of(ManifestFile& file, const std::string& bytes) const {
    write_file_atomically(journal_folder(options_.output) + "/" + file.name, bytes);
    file.size_bytes = bytes.size();
    file.xxh3 = xxh3(bytes);
  }

  // Completes the set beside the one that OUTPUT may hold; only a whole one takes its place.
  Manifest publish() {
    Manifest manifest{.task = task_of(options_.format),
                      .annotations_size_bytes = identity_.annotations_size_bytes,
                      .annotations_xxh3 = identity_.annotations_xxh3,
                      .options = identity_.options,
                      .counts = tally_.counts};
    manifest.counts.quarantined = static_cast<std::int64_t>(quarantined_.size());
    manifest.categories = plan_.categories.all();
    manifest.label_counts = tally_.label_counts;
    const auto page = try_data_page({.facts = facts_,
                                     .manifest = manifest,
                                     .quarantined = quarantined_,
                                     .plan = plan_,
                                     .thread_count = options_.thread_count()});
    await_finished_shard();
    for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
      shards_[shard].file.name = shard_file_name(shard, shards_.size());
    }
    manifest.shards = shards_;
    manifest.index.name = kIndexFile;
    write_file_of(manifest.index, encode_index(index_));
    manifest.quarantine.name = kQuarantineFile;
    write_file_of(manifest.quarantine, encode_quarantine(quarantined_));
    write_data_page(options_.output, page);
    write_file_atomically(journal_folder(options_.output) + "/" + kManifestFile,
                          encode_manifest(manifest));
    publish_set(options_.output, manifest);
    return manifest;
  }

  const PackOptions& options_;
  const PackIdentity& identity_;
  const PackPlan& plan_;
  PackJournal journal_;
  std::string scratch_folder_;  // empty: shards are built in the journal
  Scratch scratch_;
  Tally tally_;
  DataFacts facts_;
  std::size_t next_image_ = 0;
  std::vector<ManifestShard> shards_{};
  std::vector<IndexEntry> index_{};
  std::vector<SourceFile> sources_{};  // of the open shard's records
  std::vector<QuarantinedImage> quarantined_{};
  std::int64_t respelled_count_ = 0;  // images whose file has another name, of this run
  std::string first_respelled_{};
  std::ptrdiff_t unsaved_quarantined_ = 0;  // at the end of quarantined_, in no note yet
  std::unique_ptr<ShardWriter> writer_{};
  bool may_hold_shards_ = true;             // of a run before this one
  std::future<ManifestShard> finishing_{};  // last: it uses the others
};

// Two ids are two classes and train well (Roboflow's exports name a class like its supercategory),
// so this is not an error.
void warn_of_equal_names(const PackOptions& options, const CategoryMap& categories) {
  const auto labels = categories.equal_names();
  if (!labels) return;
  const Category& first = categories.at(labels->first);
  log_warning(options.input(), ": categories ", first.id, " and ", categories.at(labels->second).id,
              " are both named \"", first.name,
              "\"; they stay two classes, but --init matches classes by name and cannot tell them ",
              "apart");
}

// COCO is the default, also for those who did not ask for it.
void check_format(const PackOptions& options) {
  if (options.format != AnnotationFormat::kCoco) return;
  const std::string& path = options.annotations;
  const std::string suffix = lower_case(std::filesystem::path(path).extension().string());
  const char* format = suffix == ".csv"                        ? "csv"
                       : suffix == ".yaml" || suffix == ".yml" ? "yolo"
                       : suffix == ".xml" || is_folder(path)   ? "voc"
                                                               : nullptr;
  if (format == nullptr) return;
  throw Error(ErrorKind::kData,
              cat(path, is_folder(path) ? ": is a folder" : ": is no JSON by its name",
                  ", want COCO's instances JSON"),
              cat("give --format ", format, " where it is that"));
}

}  // namespace

PackResult pack(const PackOptions& options) {
  check_format(options);
  check_output_is_outside(options);
  check_is_ours(options.output);
  const bool may_be_finished = !options.overwrite && holds_set(options.output);
  if (!may_be_finished) check_image_folder(options);  // a finished set does not need it
  std::optional<ReadAnnotations> read;
  if (options.format != AnnotationFormat::kCoco) {
    check_image_folder(options);
    read = read_annotations(options.annotation_source());
  }
  const PackIdentity identity = identity_of_input(options, read);
  if (may_be_finished) {  // asked before a large JSON is read
    with_old_set(options, [&](const ShardSet& set) {
      check_same_identity(options.output, identity_of(set.manifest()), identity);
    });
  }
  // Bad annotations are found before the output folder is touched.
  Instances instances = read ? std::move(read->instances) : read_instances(options.annotations);
  std::vector<int> image_labels = read ? std::move(read->image_labels) : std::vector<int>{};
  if (options.part) keep_part(instances, image_labels, *options.part, options.input());
  const std::string doubts[] = {doubtful_boxes(instances), unmatchable_annotation(instances),
                                shared_files(instances), rotated_boxes(instances)};
  if (options.format == AnnotationFormat::kCoco && !may_be_finished) {
    warn_of_alike_classes(options.input(), instances, image_labels);
  }
  const PackPlan plan = make_pack_plan(std::move(instances), image_labels);
  if (!options.overwrite) {
    if (const auto manifest = finished_set(options, identity, plan)) {
      remove_leftovers(options.output);
      restore_data_page(options, plan);
      return {.manifest = *manifest, .was_finished = true};
    }
  }
  const OutputFolder folder(options.output);
  check_is_ours(options.output);
  const bool was_whole = as_io_error([&] { return publish_whole_set(options.output); });
  if (!options.overwrite || was_whole) {
    try {
      if (const auto manifest = finished_set(options, identity, plan)) {
        restore_data_page(options, plan);
        return {.manifest = *manifest, .was_finished = true};
      }
    } catch (const Error& error) {
      const bool is_another_set = error.kind() == ErrorKind::kConfig;
      if (!options.overwrite || !is_another_set) throw;
    }
  }
  warn_of_equal_names(options, plan.categories);
  for (const std::string& doubt : doubts) {
    if (!doubt.empty()) log_warning(options.input(), ": ", doubt);
  }
  return Packer(options, identity, plan).run();
}

}  // namespace retina
