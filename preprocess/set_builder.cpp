#include "preprocess/set_builder.h"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "preprocess/new_set.h"
#include "preprocess/ordered_streams.h"
#include "preprocess/output_folder.h"
#include "preprocess/record_maker.h"
#include "preprocess/source_images.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/log.h"
#include "shared/base/mount.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"
#include "shared/base/progress.h"
#include "shared/base/signals.h"
#include "shared/image/tile_grid.h"
#include "shared/shard/shard_set.h"
#include "shared/shard/shard_writer.h"

namespace retina {
namespace {

// Returns the folder to build the shards of `output` in: `scratch`, or, where the output's file
// system cannot map files, a default, with a warning; empty: in its journal, which is made.
std::string building_folder(const std::string& scratch, const std::string& output) {
  make_folder(journal_folder(output));
  if (!scratch.empty() || can_map_files(journal_folder(output))) return scratch;
  log_warning(output, ": this file system cannot map files into memory; shards are built in ",
              default_scratch(), " (--scratch chooses another place)");
  return default_scratch();
}

// One packing, from what an interrupted one left to the published set.
class SetBuilder {
 public:
  SetBuilder(const PackOptions& options, const Manifest& begun, const PackPlan& plan)
      : options_(options),
        begun_(begun),
        plan_(plan),
        scratch_folder_(building_folder(options.scratch, options.output)),
        scratch_(scratch_folder_, options.output),
        set_(begun.categories.size()),
        open_(begun.categories.size()) {
    set_.facts.emplace(begun.categories.size());
  }

  PackResult run() {
    try {
      return as_io_error([&] { return run_to_the_end(); });
    } catch (const Error& error) {
      // What was written a moment ago is missing: the fault is the output's mount, not an input.
      if (error.kind() == ErrorKind::kNoInput) check_journal_present(options_.output);
      // Without a finished shard there is nothing to continue.
      writer_.reset();
      await_finished_shard_or_none();
      if (!holds_work(options_.output)) remove_journal(options_.output);
      throw;
    }
  }

 private:
  PackResult run_to_the_end() {
    reuse_finished_shards();
    const std::size_t reused = set_.shards.size();
    if (next_image_ < plan_.images.size()) make_shards();
    name_look_alikes(set_.quarantined, options_.images_folder(), plan_.images.size());
    warn_of_respelled();
    // A part may have none.
    if (set_.index.empty() && options_.part.empty()) {
      fail_without_images(set_.quarantined, options_.images);
    }
    PackResult result = publish_new_set(set_, {.folder = options_.output,
                                               .begun = begun_,
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
    const SourceImages images(options_.image_source());
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

  void reuse_finished_shards() {
    while (reuse(finished_folder(options_.output, set_.shards.size()))) {
    }
    keep_finished(options_.output, set_.shards.size());
    if (set_.shards.empty()) return check_free_space();
    if (next_image_ < plan_.images.size()) check_image_folder();
    log_info("continuing: ", counted(set_.shards.size(), "shard is", "shards are"),
             " finished, image ", next_image_, " of ", plan_.images.size());
  }

  // Returns true if the folder holds the next finished shard, which is then the next of this
  // packing. With --on-bad-image fail, one before which images were quarantined is packed again.
  bool reuse(const std::string& folder) {
    if (!path_exists(folder + "/" + kManifestFile)) return false;
    const std::size_t done = set_.index.size();
    try {
      const ShardSet shard(folder, scratch_folder_);
      const Manifest& manifest = shard.manifest();
      if (!options_.overwrite) check_same_input(options_.output, manifest, begun_);
      const bool is_strict = options_.on_bad_image == BadImage::kFail;
      if (!input_differences(manifest, begun_).empty() ||
          (is_strict && manifest.counts.quarantined > 0)) {
        return false;
      }
      set_.add(shard, scratch_folder_);
    } catch (const Error& error) {
      const bool is_damaged =
          error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kNoInput;
      if (!is_damaged || set_.index.size() > done) throw;
      return false;
    }
    // Images before its last record that have none were quarantined.
    const IndexEntry last = set_.index.back();
    while (plan_.images.at(next_image_).id != last.image_id) ++next_image_;
    next_tile_ = last.tile ? number_of(last) + 1 : 0;
    if (!last.tile) ++next_image_;
    return true;
  }

  // In tiles_of().
  std::size_t number_of(const IndexEntry& tile) const {
    const std::vector<TileRect> all =
        tiles_of({tile.tile->image_width, tile.tile->image_height}, grid_of(*begun_.options.tile));
    const TileRect place{tile.tile->x, tile.tile->y, tile.width, tile.height};
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), place) - all.begin());
  }

  // An empty folder is what an unmounted one looks like: the images to come would be missing.
  void check_image_folder() const {
    const SourceImages images(options_.image_source());
    const bool has_one = std::any_of(
        plan_.images.begin(), plan_.images.end(),
        [&](const PlannedImage& image) { return images.size_bytes(image.file_name).has_value(); });
    if (!has_one) throw images.gone();
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
    for (int thread = 0; thread < thread_count; ++thread)
      makers.emplace_back(begun_.options, options_.image_source());
    OrderedStreams<MadeRecord> work(
        {.first = next_image_,
         .count = plan_.images.size(),
         .thread_count = thread_count,
         .limit_bytes = kMaxWaitingBytes},
        [&, begun = next_image_](int thread, std::size_t image, const auto& put) {
          makers[static_cast<std::size_t>(thread)].make(
              plan_.images[image], image == begun ? next_tile_ : 0, [&](MadeRecord made) {
                const std::size_t size_bytes = made.bytes.size();
                put(std::move(made), size_bytes);
              });
        });
    Progress progress("packing", static_cast<std::int64_t>(plan_.images.size()), "images");
    for (; next_image_ < plan_.images.size(); ++next_image_) {
      while (const std::optional<MadeRecord> made = work.take()) {
        stop_when_asked();
        progress.update(static_cast<std::int64_t>(next_image_), progress_text());
        if (made->bad) {
          quarantine(*made->bad);
        } else {
          append(*made);
        }
      }
    }
    progress.update(static_cast<std::int64_t>(next_image_));
    finish_shard();
    progress.finish();
  }

  std::string progress_text() const {
    return cat(begun_.options.tile ? cat(counted(set_.index.size(), "tile"), ", ") : "",
               counted(open_shard(), "shard"), ", ", set_.quarantined.size(), " quarantined");
  }

  void warn_of_respelled() const {
    if (respelled_count_ == 0) return;
    log_warning(options_.images, ": ", counted(respelled_count_, "file was", "files were"),
                " found under a different spelling from the annotations (", first_respelled_, ")");
  }

  void append(const MadeRecord& made) {
    if (!made.found_as.empty() && respelled_count_++ == 0) {
      first_respelled_ = describe_spelling(plan_.images[next_image_].file_name, made.found_as);
    }
    if (writer_ && !writer_->has_space(made.bytes.size())) finish_shard();
    const std::string& output = options_.output;
    if (!writer_) {
      make_finished_folder(output, open_shard());
      writer_ = std::make_unique<ShardWriter>(
          finished_shard_path(output, open_shard()), options_.shard_size_bytes,
          scratch_folder_.empty() ? ""
                                  : scratch_.build_path(finished_folder(output, open_shard())));
    }
    const std::uint32_t place = writer_->append(made.bytes, made.bytes_xxh3);
    Record record = made.record;
    record.image = {};
    record.image = std::string_view(made.bytes).substr(record_size_bytes(record));
    set_.count(record, made.image_xxh3,
               {.shard = static_cast<std::uint32_t>(open_shard()), .place = place});
    open_.count(record, made.image_xxh3, {.place = place});
    for (QuarantinedImage& bad : waiting_) open_.quarantined.push_back(std::move(bad));
    waiting_.clear();
  }

  // Disk and checks take their time: meanwhile the next shard is filled. One at a time, in order.
  void finish_shard() {
    if (!writer_) return;
    await_finished_shard();
    finishing_ = std::async([this, writer = std::move(writer_),
                             set = std::exchange(open_, NewSet(begun_.categories.size())),
                             number = set_.shards.size()]() mutable {
      set.shards.push_back(writer->finish());
      writer.reset();
      set.write(finished_folder(options_.output, number), begun_);
      return set.shards.front();
    });
  }

  void await_finished_shard() {
    if (finishing_.valid()) set_.shards.push_back(finishing_.get());
  }
  // Ignores its errors: another one is reported.
  void await_finished_shard_or_none() {
    try {
      await_finished_shard();
    } catch (const Error&) {
    }
  }

  // Number of the shard that is being filled.
  std::size_t open_shard() const { return set_.shards.size() + (finishing_.valid() ? 1 : 0); }

  void quarantine(const QuarantinedImage& bad) {
    if (options_.on_bad_image == BadImage::kFail) {
      std::vector<QuarantinedImage> first = {bad};
      name_look_alikes(first, options_.images_folder(), plan_.images.size());
      fail_on_bad_image(first.front());
    }
    log_debug(bad.file_name, ": quarantined: ", bad.reason);
    set_.quarantined.push_back(bad);
    waiting_.push_back(bad);
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
  std::string scratch_folder_;  // empty: shards are built in the journal
  Scratch scratch_;
  NewSet set_;
  NewSet open_;                              // of the open shard alone
  std::vector<QuarantinedImage> waiting_{};  // since its last record
  std::size_t next_image_ = 0;               // in the plan
  std::size_t next_tile_ = 0;                // of that image, where finished shards have some of it
  std::int64_t respelled_count_ = 0;         // images whose file has another name, of this run
  std::string first_respelled_{};
  std::unique_ptr<ShardWriter> writer_{};
  std::future<ManifestShard> finishing_{};  // last: it uses the others
};

}  // namespace

PackResult build_set(const PackOptions& options, const Manifest& begun, const PackPlan& plan) {
  return SetBuilder(options, begun, plan).run();
}

void fail_on_bad_image(const QuarantinedImage& bad) {
  throw Error(
      ErrorKind::kData, cat(escaped(bad.file_name), ": image ", bad.image_id, ": ", bad.reason),
      bad.hint.empty() ? "fix the image, or quarantine such images with --on-bad-image quarantine"
                       : bad.hint);
}

}  // namespace retina
