#include "preprocess/set_builder.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "preprocess/image_check.h"
#include "preprocess/new_set.h"
#include "preprocess/ordered_streams.h"
#include "preprocess/output_folder.h"
#include "preprocess/pack_journal.h"
#include "preprocess/record_maker.h"
#include "preprocess/set_page.h"
#include "preprocess/source_images.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"
#include "shared/base/progress.h"
#include "shared/base/signals.h"
#include "shared/shard/shard_file.h"
#include "shared/shard/shard_writer.h"

namespace retina {
namespace {

// One packing, from what an interrupted one left to the published set.
class SetBuilder {
 public:
  SetBuilder(const PackOptions& options, const Manifest& begun, const PackPlan& plan,
             std::uint64_t used_bytes)
      : options_(options),
        begun_(begun),
        plan_(plan),
        journal_(options.output, begun, options.overwrite),
        scratch_folder_(building_folder(options.scratch, options.output)),
        scratch_(scratch_folder_, options.output),
        set_(plan.categories.all().size()),
        first_shard_(options.shard_size_bytes, used_bytes) {}

  PackResult run() {
    try {
      return as_io_error([&] { return run_to_the_end(); });
    } catch (const Error& error) {
      // What was written a moment ago is missing: the fault is the output's mount, not an input.
      if (error.kind() == ErrorKind::kNoInput) check_journal_present(options_.output);
      // Without a finished shard there is nothing to continue.
      writer_.reset();
      await_finished_shard_or_none();
      if (set_.shards.empty() && !may_hold_shards_) remove_journal(options_.output);
      throw;
    }
  }

 private:
  PackResult run_to_the_end() {
    reuse_finished_shards();
    const std::size_t reused = set_.shards.size();
    if (next_.image == 0 && next_.tile == 0) check_free_space();
    if (next_.image < plan_.images.size()) make_shards();
    name_look_alikes(set_.quarantined, options_.images_folder());
    tell_respelled();
    // What is about the images of all parts is left to their merge.
    if (options_.part.empty()) {
      keep_common_folders(set_.quarantined, plan_.images.size());
      if (set_.index.empty()) fail_without_images(set_.quarantined, options_.images);
    }
    PackResult result = publish_new_set(set_, {.folder = options_.output,
                                               .begun = begun_,
                                               .categories = plan_.categories.all(),
                                               .file_name = file_names_of(plan_),
                                               .has_page = options_.part.empty(),
                                               .thread_count = options_.thread_count(),
                                               .await_shards = [this] { await_finished_shard(); }});
    result.reused_shards = reused;
    return result;
  }

  // Better asked before an hour of packing than after: estimates the set's size from the files of a
  // few images (a mount with 100,000 images is slow to ask) and throws kIo when clearly less is
  // free in the output or, for one shard, in the scratch folder. Silent when nothing is known.
  void check_free_space() const {
    constexpr std::size_t kSampled = 100;
    // The sample's mean is off by some per cent; only a clear lack of space is an error here.
    constexpr double kSurelyNeededPart = 0.8;
    if (options_.max_side_px || options_.convert || options_.tile_px) return;
    // The plan is shuffled: its first images are a fair sample.
    const std::size_t sampled = std::min(kSampled, plan_.images.size());
    double sampled_bytes = 0;
    const SourceImages images(options_.images_folder(), options_.format);
    for (std::size_t i = 0; i < sampled; ++i) {
      const auto size_bytes = images.size_bytes(plan_.images[i].file_name);
      sampled_bytes += static_cast<double>(size_bytes.value_or(0));
    }
    const double needed_bytes = kSurelyNeededPart * sampled_bytes /
                                static_cast<double>(std::max<std::size_t>(sampled, 1)) *
                                static_cast<double>(plan_.images.size());
    require_space(options_.output, needed_bytes, "--output");
    if (scratch_folder_.empty()) return;
    require_space(scratch_folder_,
                  std::min(needed_bytes, static_cast<double>(options_.shard_size_bytes)),
                  "--scratch");
  }

  // A shard counts as finished when its note is whole, its bytes are those of the note and its
  // images are today's; what it holds is read from the shard itself.
  void reuse_finished_shards() {
    const std::vector<FinishedShard> notes = journal_.read();
    may_hold_shards_ = !notes.empty();
    for (const FinishedShard& note : notes) {
      if (!reuse(note)) break;
    }
    journal_.forget_from(set_.shards.size());
    may_hold_shards_ = false;
    if (!set_.shards.empty()) {
      log_info("continuing: ", counted(set_.shards.size(), "shard is", "shards are"),
               " finished, image ", next_.image, " of ", plan_.images.size());
    }
  }

  // Whether the shard of the note counts as finished; then it is the next of this packing.
  bool reuse(const FinishedShard& note) {
    const std::filesystem::path path(journal_shard_path(options_.output, set_.shards.size()));
    if (!path_exists(path) || file_size_bytes(path) != note.shard.file.size_bytes ||
        xxh3_file(path) != note.shard.file.xxh3 || !has_images_of(note)) {
      return false;
    }
    ManifestShard shard = note.shard;
    shard.file.name = path.filename().string();
    const ShardFile reader(path.parent_path().string(), shard, scratch_folder_);
    for (std::size_t place = 0; place < reader.size(); ++place) {
      const Record record =
          decode_record(reader.bytes(place), cat(path.string(), ": record ", place));
      count(record, xxh3(record.image), static_cast<std::uint32_t>(place));
    }
    for (const QuarantinedImage& bad : note.quarantined) quarantine(bad);
    unsaved_quarantined_ = 0;
    set_.shards.push_back(note.shard);
    next_ = note.next;
    return true;
  }

  bool has_images_of(const FinishedShard& note) const {
    if (const auto changed = changed_image(options_, plan_, next_.image, note)) {
      if (changed->was_packed && !options_.overwrite) {
        throw changed_input_images(options_.output, changed->what);
      }
      log_info("repacking from shard ", set_.shards.size(), ": ", changed->what);
      return false;
    }
    if (options_.on_bad_image != BadImage::kFail || note.quarantined.empty()) return true;
    if (options_.overwrite) return false;
    const QuarantinedImage& bad = note.quarantined.front();
    throw Error(ErrorKind::kData,
                cat(escaped(bad.file_name),
                    ": was quarantined by the run that this one continues: ", bad.reason),
                "fix it, or continue with --on-bad-image quarantine");
  }

  // Each holds a row of tiles.
  int thread_count() const {
    constexpr std::uint64_t kMaxBandBytes = std::uint64_t{192} << 20;
    if (!begun_.options.tile) return options_.thread_count();
    int widest_px = 1;
    for (const PlannedImage& image : plan_.images) {
      if (image.stated_size) widest_px = std::max(widest_px, image.stated_size->width);
    }
    const std::uint64_t most = kMaxBandBytes / tile_row_bytes(widest_px, *begun_.options.tile);
    return static_cast<int>(
        std::clamp<std::uint64_t>(most, 1, static_cast<std::uint64_t>(options_.thread_count())));
  }

  void make_shards() {
    constexpr std::size_t kMaxWaitingBytes = std::size_t{128} << 20;
    const int thread_count = this->thread_count();
    std::vector<RecordMaker> makers;
    for (int thread = 0; thread < thread_count; ++thread) makers.emplace_back(options_);
    OrderedStreams<MadeRecord> work(
        {.first = next_.image,
         .count = plan_.images.size(),
         .thread_count = thread_count,
         .limit_bytes = kMaxWaitingBytes},
        [&, begun = next_](int thread, std::size_t image, const auto& put) {
          makers[static_cast<std::size_t>(thread)].make(
              plan_.images[image], image == begun.image ? begun.tile : 0, [&](MadeRecord made) {
                const std::size_t size_bytes = made.bytes.size();
                put(std::move(made), size_bytes);
              });
        });
    Progress progress("packing", static_cast<std::int64_t>(plan_.images.size()), "images");
    for (; next_.image < plan_.images.size(); next_ = {.image = next_.image + 1}) {
      while (const std::optional<MadeRecord> made = work.take()) {
        stop_when_asked();
        progress.update(static_cast<std::int64_t>(next_.image), progress_text());
        if (made->bad) {
          quarantine(*made->bad);
        } else {
          append(*made);
        }
      }
    }
    progress.update(static_cast<std::int64_t>(next_.image));
    finish_shard();
    progress.finish();
  }

  std::string progress_text() const {
    return cat(begun_.options.tile ? cat(counted(set_.index.size(), "tile"), ", ") : "",
               counted(open_shard(), "shard"), ", ", set_.quarantined.size(), " quarantined");
  }

  void tell_respelled() const {
    if (respelled_count_ == 0) return;
    log_warning(options_.images, ": ", counted(respelled_count_, "file was", "files were"),
                " found under a different spelling from the annotations (", first_respelled_, ")");
  }

  void append(const MadeRecord& made) {
    if (!made.found_as.empty() && respelled_count_++ == 0) {
      first_respelled_ = describe_spelling(plan_.images[next_.image].file_name, made.found_as);
    }
    next_.tile = made.tile_number;
    const bool is_first = open_shard() == 0;
    if (writer_ && (!writer_->has_space(made.bytes.size()) ||
                    (is_first && !first_shard_.has_space(made.bytes.size())))) {
      finish_shard();
    }
    first_shard_.add(made.bytes.size());
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
    const bool is_same_image =
        place > 0 && set_.index[set_.index.size() - 2].image_id == made.record.image_id;
    if (!is_same_image) sources_.push_back(made.source);
  }

  // Disk and checks take their time: meanwhile the next shard is filled. One at a time, in order.
  void finish_shard() {
    if (!writer_) return;
    await_finished_shard();
    FinishedShard note;
    note.next = next_;
    note.quarantined = {set_.quarantined.end() - unsaved_quarantined_, set_.quarantined.end()};
    note.sources = std::exchange(sources_, {});
    finishing_ = std::async([this, writer = std::move(writer_), note = std::move(note),
                             number = set_.shards.size()]() mutable {
      note.shard = writer->finish();
      writer.reset();
      journal_.add(number, note);
      return note.shard;
    });
    unsaved_quarantined_ = 0;
  }

  void await_finished_shard() {
    if (finishing_.valid()) set_.shards.push_back(finishing_.get());
  }
  // Where another error is to be told.
  void await_finished_shard_or_none() {
    try {
      await_finished_shard();
    } catch (const Error&) {
    }
  }

  // Number of the shard that is being filled.
  std::size_t open_shard() const { return set_.shards.size() + (finishing_.valid() ? 1 : 0); }

  void count(const Record& record, std::uint64_t image_xxh3, std::uint32_t place) {
    set_.count(record, image_xxh3,
               {.shard = static_cast<std::uint32_t>(open_shard()), .place = place});
  }

  void quarantine(const QuarantinedImage& bad) {
    if (options_.on_bad_image == BadImage::kFail) {
      std::vector<QuarantinedImage> first = {bad};
      name_look_alikes(first, options_.images_folder());
      keep_common_folders(first, plan_.images.size());
      fail_on_bad_image(first.front());
    }
    log_debug(bad.file_name, ": quarantined: ", bad.reason);
    set_.quarantined.push_back(bad);
    ++unsaved_quarantined_;
  }

  void stop_when_asked() {
    if (stop_signal() == 0) return;
    await_finished_shard();
    throw Error(ErrorKind::kInterrupted,
                cat(options_.output, ": stopped by signal ", stop_signal(), " with ",
                    counted(set_.shards.size(), "shard"), " finished"),
                "run the same command again to continue");
  }

  const PackOptions& options_;
  const Manifest& begun_;
  const PackPlan& plan_;
  PackJournal journal_;
  std::string scratch_folder_;  // empty: shards are built in the journal
  Scratch scratch_;
  NewSet set_;
  ShardSpace first_shard_;             // with what the part before puts there
  PlanPlace next_{};                   // of the record after those that are done
  std::vector<SourceFile> sources_{};  // of the open shard's images
  std::int64_t respelled_count_ = 0;   // images whose file has another name, of this run
  std::string first_respelled_{};
  std::ptrdiff_t unsaved_quarantined_ = 0;  // at the end of set_.quarantined, in no note yet
  std::unique_ptr<ShardWriter> writer_{};
  bool may_hold_shards_ = true;             // of a run before this one
  std::future<ManifestShard> finishing_{};  // last: it uses the others
};

}  // namespace

PackResult build_set(const PackOptions& options, const Manifest& begun, const PackPlan& plan,
                     std::uint64_t used_bytes) {
  return SetBuilder(options, begun, plan, used_bytes).run();
}

void fail_on_bad_image(const QuarantinedImage& bad) {
  throw Error(
      ErrorKind::kData, cat(escaped(bad.file_name), ": image ", bad.image_id, ": ", bad.reason),
      bad.hint.empty() ? "fix the image, or quarantine such images with --on-bad-image quarantine"
                       : bad.hint);
}

}  // namespace retina
