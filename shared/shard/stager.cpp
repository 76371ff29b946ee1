#include "shared/shard/stager.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/measure.h"
#include "shared/base/mount.h"
#include "shared/base/signals.h"

namespace retina {
namespace {

constexpr double kShareOfFreeSpace = 0.8;
constexpr std::chrono::milliseconds kLook{200};  // for copies by other processes

}  // namespace

std::uint64_t stage_limit_bytes(std::optional<std::uint64_t> wanted, const std::string& scratch) {
  const auto free_bytes = free_space_bytes(scratch);
  if (!free_bytes) return wanted.value_or(0);
  // The space of present copies was free before, so it counts.
  const auto space_bytes = static_cast<double>(*free_bytes + ShardCopies::copied_bytes().on_disk);
  const auto most = static_cast<std::uint64_t>(kShareOfFreeSpace * space_bytes);
  return std::min(wanted.value_or(most), most);
}

std::string reason_to_stage(const std::string& folder, const Manifest& manifest) {
  const std::string kind = network_file_system(folder);
  if (!kind.empty()) return "is on " + kind;
  if (manifest.shards.empty()) return "";
  const ManifestFile& first = manifest.shards.front().file;
  const int code = MappedFile(folder + "/" + first.name, first.size_bytes).problem();
  return means_unsupported(code) ? "cannot be mapped" : "";
}

Stager::Stager(StagerInput input)
    : input_(std::move(input)),
      pending_(input_.shards.begin(), input_.shards.end()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Stager::run(const std::stop_token& stop) {
  try {
    make_folder(input_.copies.scratch(), "--scratch");
    const CopyAhead ahead = {
        .limit_bytes = stage_limit_bytes(input_.options.limit_bytes, input_.copies.scratch()),
        .stop = stop};
    log_start(ahead.limit_bytes);
    Stopwatch watch;
    while (!pending_.empty() && !is_stopping(stop)) {
      const std::size_t waiting = pending_.size();
      for (std::size_t i = waiting; i > 0 && !is_stopping(stop); --i) {
        const std::size_t shard = pending_.front();
        pending_.pop_front();
        if (take(shard, ahead)) continue;
        pending_.push_back(shard);
      }
      if (pending_.size() < waiting) continue;
      pause(kLook, stop);
    }
    if (!is_stopping(stop)) log_end(watch.lap_ms() * 1e-3);
  } catch (const ScratchError& error) {
    log_warning(error.what(), "; no more shards of ", input_.folder, " are copied there, they are ",
                input_.otherwise);
  } catch (const std::exception& error) {
    log_warning("copying shards of ", input_.folder, " ahead of use has ended: ", error.what());
  }
}

bool Stager::take(std::size_t number, const CopyAhead& ahead) {
  const ManifestShard& shard = input_.manifest.shards[number];
  const std::string path = input_.folder + "/" + shard.file.name;
  try {
    ShardCopy copy = input_.copies.copy(shard, ahead);
    switch (copy.state) {
      case CopyState::kReady:
        input_.on_ready(number, ShardFile(path, shard, std::move(copy.file)));
        ++tally_.ready;
        tally_.ready_bytes += shard.file.size_bytes;
        return true;
      case CopyState::kDamaged:
        give_up(number, path + ": its copies do not match its checksum");
        return true;
      case CopyState::kBeyondLimit:
        ++tally_.beyond_limit;
        return true;
      case CopyState::kBusy:
        break;
    }
    return false;
  } catch (const ScratchError&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupted) return false;
    give_up(number, error.what());
    return true;
  }
}

void Stager::give_up(std::size_t number, const std::string& problem) {
  if (++tally_.failed > 1) {
    log_debug("shard ", number, ": ", problem);
    return;
  }
  log_warning(problem, "; shard ", number, " is not copied to ", input_.copies.scratch(),
              "; such shards are ", input_.otherwise);
}

void Stager::log_start(std::uint64_t limit_bytes) const {
  if (!input_.options.announces) return;
  std::uint64_t bytes = 0;
  for (const std::size_t shard : pending_) bytes += input_.manifest.shards[shard].file.size_bytes;
  log_info(input_.folder, " ", input_.reason, ": ", counted(pending_.size(), "shard"), " (",
           human_bytes(static_cast<double>(bytes)), ") are copied to ", input_.copies.scratch(),
           " ahead of use (--stage-limit: ", human_bytes(static_cast<double>(limit_bytes)), ")");
}

void Stager::log_end(double seconds) const {
  if (!input_.options.announces) return;
  log_info(input_.folder, ": ", counted(tally_.ready, "shard"), " (",
           human_bytes(static_cast<double>(tally_.ready_bytes)), ") copied to ",
           input_.copies.scratch(), " in ", human_seconds(seconds),
           tally_.beyond_limit == 0 ? "" : cat(", ", tally_.beyond_limit, " beyond --stage-limit"),
           tally_.failed == 0 ? "" : cat(", ", tally_.failed, " could not be copied"));
}

}  // namespace retina
