#include "preprocess/output_folder.h"

#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "preprocess/pack_journal.h"
#include "preprocess/page/data_page.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/shard/image_index.h"
#include "shared/shard/shard_file.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

// Names of the shards in a folder.
std::vector<std::string> shard_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (is_shard_file_name(name)) names.push_back(name);
  }
  return names;
}

// Names of a set's files that the folder holds, manifest first.
std::vector<std::string> set_files(const std::string& output) {
  std::vector<std::string> names;
  for (const char* name : {kManifestFile, kIndexFile, kQuarantineFile}) {
    if (path_exists(output + "/" + name)) names.emplace_back(name);
  }
  for (const std::string& name : shard_names(output)) names.push_back(name);
  return names;
}

// Whether the journal has a finished shard or a part.
bool holds_work(const std::string& output) {
  if (!begun_parts(output).empty()) return true;
  std::error_code code;
  for (fs::directory_iterator entry(journal_folder(output), code), end; entry != end;
       entry.increment(code)) {
    if (entry->path().extension() == ".lmdb") return true;
  }
  return false;
}

// A file of the set, in the journal and in the output folder.
struct SetFile {
  std::string from{}, to{};
  const ManifestFile& file;
};

// Paths of the shards that lie in parts, by their hashes: those that a merge takes as they are.
std::map<std::uint64_t, std::string> shards_of_parts(const std::string& output) {
  std::map<std::uint64_t, std::string> paths;
  for (const PackPart& part : begun_parts(output)) {
    const std::string folder = part_folder(output, part);
    if (!is_manifest(folder + "/" + kManifestFile)) continue;
    for (const ManifestShard& shard : read_manifest(folder).shards) {
      paths.emplace(shard.file.xxh3, folder + "/" + shard.file.name);
    }
  }
  return paths;
}

std::vector<SetFile> files_of(const std::string& output, const Manifest& manifest) {
  const std::map<std::uint64_t, std::string> of_parts = shards_of_parts(output);
  std::vector<SetFile> files;
  for (std::size_t shard = 0; shard < manifest.shards.size(); ++shard) {
    const ManifestFile& file = manifest.shards[shard].file;
    std::string from = journal_shard_path(output, shard);
    const auto of_part = of_parts.find(file.xxh3);
    if (of_part != of_parts.end() && !path_exists(from)) from = of_part->second;
    files.push_back({.from = std::move(from), .to = output + "/" + file.name, .file = file});
  }
  for (const ManifestFile* file : {&manifest.index, &manifest.quarantine}) {
    files.push_back({.from = journal_folder(output) + "/" + file->name,
                     .to = output + "/" + file->name,
                     .file = *file});
  }
  return files;
}

// Whole in the journal, or already moved into place.
bool is_there(const SetFile& file) {
  const std::string& path = path_exists(file.from) ? file.from : file.to;
  return path_exists(path) && file_size_bytes(path) == file.file.size_bytes &&
         xxh3_file(path) == file.file.xxh3;
}

// The new set's page replaces the old one's; anybody else's stays. The set is whole without it.
void publish_page(const std::string& output) {
  const std::string from = journal_folder(output) + "/" + kDataPageFile;
  const std::string to = output + "/" + kDataPageFile;
  try {
    if (!path_exists(from)) return;  // moved by the run that this one completes, or not written
    if (path_exists(to) && !is_data_page(to)) {
      log_warning(to, ": was not written by coco-pack and is kept; the set has no data page");
      return;
    }
    remove_file(to);  // where a rename does not replace
    publish_file(from, to);
  } catch (const Error& error) {
    log_warning(to, ": the set has no data page: ", error.what());
  }
}

}  // namespace

void check_is_ours(const std::string& output) {
  const auto refuse = [&](const std::string& name) {
    throw Error(ErrorKind::kConfig,
                cat(output, ": holds ", name, ", which does not look like coco-pack's"),
                "choose another --output, or move these files away");
  };
  const JournalKind journal = journal_kind(output);
  if (journal == JournalKind::kForeign) {
    const std::string foreign = foreign_beside_parts(output);
    if (foreign.empty()) refuse(fs::path(journal_folder(output)).filename());
    throw Error(
        ErrorKind::kConfig,
        cat(journal_folder(output), ": holds ", escaped(foreign), ", which is not coco-pack's"),
        "move that file away");
  }
  const std::vector<std::string> files = set_files(output);
  if (files.empty()) return;
  const bool has_manifest = files.front() == kManifestFile;
  if (journal == JournalKind::kOurs && !has_manifest) return;
  // Either is enough when the other was lost or damaged.
  if (is_manifest(output + "/" + kManifestFile) || is_index(output + "/" + kIndexFile)) return;
  refuse(files.front());
}

bool holds_set(const std::string& output) {
  if (path_exists(output + "/" + kManifestFile)) return true;
  return journal_kind(output) == JournalKind::kNone && !set_files(output).empty();
}

OutputFolder::OutputFolder(const std::string& path) : path_(path) {
  constexpr int kAttempts = 100;  // each time another packer removed the folder that it had made
  for (int attempt = 1;; ++attempt) {
    is_new_ = !path_exists(path);
    make_folder(path);
    try {
      lock_.emplace(path);
      return;
    } catch (const Error&) {
      if (attempt == kAttempts || path_exists(path)) throw;
    }
  }
}

OutputFolder::~OutputFolder() {
  if (!is_new_) return;
  std::error_code ignored;
  int files = 0;
  using Files = fs::directory_iterator;
  for (Files file(path_, ignored); file != Files(); file.increment(ignored)) ++files;
  if (files > 1) return;
  remove_file(path_ + "/.lock");
  remove_file(path_);  // fails, and should, unless the folder is empty
}

void publish_set(const std::string& output, const Manifest& manifest) {
  // From here to the last line there is no data set in OUTPUT; a reader that has the old one open
  // keeps its files.
  remove_file(output + "/" + kManifestFile);
  if (path_exists(output + "/" + kManifestFile)) {
    throw Error(ErrorKind::kIo, cat(output, "/", kManifestFile, ": cannot be removed"),
                "fix the mount or its permissions, then run the same command again");
  }
  publish_page(output);
  sync_path(output);

  // The old set's shards go, the new files come.
  std::set<std::string> kept;
  for (const ManifestShard& shard : manifest.shards) kept.insert(shard.file.name);
  for (const std::string& name : shard_names(output)) {
    if (kept.count(name) == 0) remove_file(output + "/" + name);
  }
  for (const SetFile& file : files_of(output, manifest)) {
    if (!path_exists(file.from)) continue;  // moved by the run that this one completes
    remove_file(file.to);                   // where a rename does not replace
    publish_file(file.from, file.to);
  }

  // The new manifest, once all that it lists is there.
  check_journal_present(output);
  for (const SetFile& file : files_of(output, manifest)) check_file_size(output, file.file);
  remove_parts(output);  // those beside a published set are of another one
  publish_file(journal_folder(output) + "/" + kManifestFile, output + "/" + kManifestFile);
  remove_journal(output);
}

void remove_leftovers(const std::string& output) {
  if (journal_kind(output) != JournalKind::kOurs) return;
  try {
    const FolderLock lock(output);
    if (!holds_work(output)) remove_journal(output);
  } catch (const Error&) {
    // A folder that cannot be written, or that another process is using.
  }
}

bool publish_whole_set(const std::string& output) {
  const std::string path = journal_folder(output) + "/" + kManifestFile;
  if (!path_exists(path)) return false;
  try {
    const Manifest manifest = decode_manifest(read_file(path), path);
    for (const SetFile& file : files_of(output, manifest)) {
      if (!is_there(file)) return false;
    }
    publish_set(output, manifest);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    return false;  // a damaged manifest
  }
}

}  // namespace retina
