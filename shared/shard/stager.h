// Copies the shards that will be read to a local disk, one after the other, on a thread of its own
// while they are still read from their mount.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shared/shard/manifest.h"
#include "shared/shard/shard_copies.h"
#include "shared/shard/shard_file.h"

namespace retina {

struct StageOptions {
  bool always = false;  // wherever the set is; else from a network mount, or one without mmap
  // Limit of the copies of the job's sets on this node; at most 80 % of the space that is free
  // there at the start, which is the default: checkpoints are built there, too. 0: none ahead of
  // use.
  std::optional<std::uint64_t> limit_bytes = {};
  bool announces = true;  // logs its start and its end; one rank does
};

struct StagerInput {
  std::string folder = {};  // the set's
  const Manifest& manifest;
  ShardCopies& copies;
  std::vector<std::size_t> shards = {};           // in the order of their use
  std::string reason = {};                        // for the log: "is on NFS"
  std::string otherwise = "read from the mount";  // for the log: how other shards are read
  StageOptions options = {};
  // Called on the stager's thread with each shard that is ready.
  std::function<void(std::size_t shard, ShardFile copy)> on_ready = {};
};

class Stager {
 public:
  // Starts the thread. A shard that cannot be copied costs time, not the job: after the retries of
  // ShardCopies one warning names the first such shard and the reason, and it is read where it is;
  // so are all others once the scratch disk fails. Data that `input` borrows must outlive the
  // stager.
  explicit Stager(StagerInput input);
  // Stops; an unfinished copy is dropped.
  ~Stager() = default;
  Stager(const Stager&) = delete;
  Stager& operator=(const Stager&) = delete;

 private:
  // Numbers of shards by outcome.
  struct Tally {
    std::size_t ready = 0, beyond_limit = 0, failed = 0;
    std::uint64_t ready_bytes = 0;
  };
  void run(const std::stop_token& stop);
  // Copies one shard. Returns false if it must be tried again later.
  bool take(std::size_t shard, const CopyAhead& ahead);
  void give_up(std::size_t shard, const std::string& problem);
  void log_start(std::uint64_t limit_bytes) const;
  void log_end(double seconds) const;

  StagerInput input_;
  std::deque<std::size_t> pending_;
  Tally tally_;
  std::jthread thread_;  // last: it uses the others
};

// Returns the effective StageOptions::limit_bytes in a scratch folder now.
std::uint64_t stage_limit_bytes(std::optional<std::uint64_t> wanted, const std::string& scratch);

// Returns why the shards of a set are worth copying: "is on NFS", "cannot be mapped"; empty if they
// are not.
std::string reason_to_stage(const std::string& folder, const Manifest& manifest);

}  // namespace retina
