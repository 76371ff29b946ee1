#include "train/start_point.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/checkpoint/sealed_file.h"

namespace retina {
namespace {

// From the books where they know the file by its seal, else from the file, whole.
CheckpointEntry entry_of(const RunDir& dir, const std::vector<CheckpointEntry>& books,
                         const std::string& name) {
  const std::string path = dir.path(name);
  const std::string seal = hex64(read_seal(path, "checkpoint"));
  const auto known = std::find_if(books.begin(), books.end(), [&](const CheckpointEntry& entry) {
    return entry.file == name && entry.xxh3 == seal;
  });
  if (known != books.end()) return *known;
  const CheckpointHeader header = read_checkpoint_header(path);
  const JsonFile trainer = JsonFile::parse(header.trainer_json, name);
  CheckpointEntry entry{.file = name, .step = trainer.root().at("step").as_int(), .xxh3 = seal};
  if (trainer.root().has("ap")) entry.ap = trainer.root().at("ap").as_double();
  return entry;
}

// Called in a handler. What cannot be read now may be whole: that ends the job, which can be
// started again.
void skip_damaged(const Error& error) {
  if (error.kind() != ErrorKind::kData) throw;
  log_warning("skipping a damaged checkpoint: ", error.what());
}

}  // namespace

std::optional<Found> newest_checkpoint(RunDir& dir) {
  const std::vector<CheckpointEntry> books = dir.read_books();
  std::vector<CheckpointEntry> entries;
  for (const auto& name : dir.checkpoint_files()) {
    try {
      entries.push_back(entry_of(dir, books, name));
    } catch (const Error& error) {
      skip_damaged(error);
    }
  }
  // Of two files of one step the later in the books is the last.
  const auto place = [&](const CheckpointEntry& entry) {
    return std::find_if(books.begin(), books.end(),
                        [&](const auto& known) { return known.file == entry.file; }) -
           books.begin();
  };
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    return a.step != b.step ? a.step < b.step : place(a) < place(b);
  });
  std::optional<Found> found;
  while (!found && !entries.empty()) {
    const std::string path = dir.path(entries.back().file);
    try {
      found = Found{load_checkpoint(path), path};
    } catch (const Error& error) {
      skip_damaged(error);
      entries.pop_back();
    }
  }
  if (!found && !dir.checkpoint_files().empty()) {
    throw Error(ErrorKind::kData, cat(dir.path(""), ": no checkpoint of this run is whole"),
                "put one back from a copy, or start afresh with --overwrite");
  }
  dir.restore(std::move(entries));
  return found;
}

}  // namespace retina
