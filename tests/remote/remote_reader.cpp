// What download_test.py and remote_set_test.py run: shared/remote and ShardSet on a URL, with the
// options that a test needs. `remote_reader` alone prints its calls.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <iostream>
#include <numeric>
#include <random>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/program.h"
#include "shared/base/signals.h"
#include "shared/remote/remote_folder.h"
#include "shared/shard/shard_copies.h"
#include "shared/shard/shard_set.h"
#include "tests/shard/small_set.h"

namespace retina {
namespace {

constexpr const char* kCalls =
    "remote_reader write FOLDER RECORDS SHARD_BYTES\n"
    "remote_reader read URL FILE\n"
    "remote_reader download URL FILE SIZE OUT PART_BYTES TRIES FIRST_PAUSE_MS STALL_S "
    "[CONNECTIONS]\n"
    "remote_reader epochs URL SCRATCH EPOCHS LIMIT_BYTES ahead|used|shuffled\n"
    "remote_reader sets SCRATCH LIMIT_BYTES URL URL...\n"
    "A signal that asks to stop is heeded.\n";

std::uint64_t number(const std::string& text) {
  return std::stoull(text);
}

int download(const std::vector<std::string>& words) {
  const RetryPolicy policy = {
      .tries = std::stoi(words.at(6)),
      .first_pause = std::chrono::milliseconds(std::stoi(words.at(7))),
  };
  RemoteOptions options{.part_bytes = number(words.at(5)),
                        .stall_s = std::stoi(words.at(8)),
                        .opening = policy,
                        .downloading = policy};
  if (words.size() > 9) options.connections = number(words.at(9));
  const RemoteFolder folder(words.at(1), options);
  const Descriptor file(words.at(4), O_RDWR | O_CREAT);
  folder.download(
      {.file = words.at(2), .size_bytes = number(words.at(3)), .descriptor = file.get()}, {});
  return 0;
}

// Each epoch's line is the hash of all records, with every field, in the order of the index,
// whatever the order and the threads that read them; and the most that the copies ever were.
int epochs(const std::vector<std::string>& words) {
  const std::string& scratch = words.at(2);
  const std::uint64_t limit = number(words.at(4));
  ShardSet set(words.at(1), scratch,
               limit == 0 ? std::nullopt : std::optional<std::uint64_t>(limit));
  const auto all_shards = [&] {
    std::vector<std::size_t> shards(set.manifest().shards.size());
    std::iota(shards.begin(), shards.end(), 0U);
    return shards;
  };
  if (words.at(5) == "ahead") {
    set.stage_ahead(all_shards, {.limit_bytes = limit == 0 ? std::nullopt
                                                           : std::optional<std::uint64_t>(limit)});
  }
  std::uint64_t most_bytes = 0;
  for (std::uint64_t epoch = 0; epoch < number(words.at(3)); ++epoch) {
    std::vector<std::size_t> order(set.index().size());
    std::iota(order.begin(), order.end(), 0U);
    if (limit == 0 || words.at(5) == "shuffled")
      std::shuffle(order.begin(), order.end(), std::mt19937_64(epoch));
    std::vector<std::uint64_t> hashes(order.size());
    std::atomic<std::size_t> next{0};
    std::vector<std::future<void>> threads;
    for (int i = 0; i < (limit == 0 ? 3 : 1); ++i) {
      threads.push_back(std::async(std::launch::async, [&] {
        for (std::size_t at = 0; (at = next++) < order.size();) {
          const Record record = set.read(order[at]);
          hashes[order[at]] = xxh3(encode_record(record));
          if (limit > 0) {
            most_bytes = std::max(most_bytes, ShardCopies::copied_bytes().full);
          }
        }
      }));
    }
    for (std::future<void>& thread : threads) thread.get();
    std::cout << hex64(xxh3(hashes.data(), 8 * hashes.size())) << '\n';
  }
  if (limit > 0) std::cout << most_bytes << '\n';
  return 0;
}

// All records of one set after the other, twice; prints the most that their copies ever were.
int sets(const std::vector<std::string>& words) {
  std::deque<ShardSet> all;
  for (std::size_t i = 3; i < words.size(); ++i) {
    all.emplace_back(words[i], words.at(1), number(words.at(2)));
  }
  std::uint64_t most_bytes = 0;
  for (int round = 0; round < 2; ++round) {
    for (const ShardSet& set : all) {
      for (std::size_t place = 0; place < set.index().size(); ++place) {
        set.read(place);
        most_bytes = std::max(most_bytes, ShardCopies::copied_bytes().full);
      }
    }
  }
  std::cout << most_bytes << '\n';
  return 0;
}

int run(const std::vector<std::string>& words) {
  const std::string call = words.empty() ? "" : words[0];
  if (call == "download") return download(words);
  if (call == "epochs") return epochs(words);
  if (call == "sets") return sets(words);
  if (call == "write") {
    write_small_set(words.at(1), number(words.at(2)), number(words.at(3)));
  } else if (call == "read") {
    std::cout << RemoteFolder(words.at(1)).read(words.at(2), 1 << 20);
  } else {
    std::cout << kCalls;
    return exit_code(ErrorKind::kUsage);
  }
  return 0;
}

}  // namespace
}  // namespace retina

int main(int argc, char** argv) {
  retina::set_log_level(retina::LogLevel::kDebug);
  retina::install_stop_signals();
  return retina::run_program("remote_reader", [&] {
    return retina::run(std::vector<std::string>(argv + 1, argv + argc));
  });
}
