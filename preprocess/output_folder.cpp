#include "preprocess/output_folder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "preprocess/page/data_page.h"
#include "shared/base/error.h"
#include "shared/base/file_spelling.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/shard/image_index.h"
#include "shared/shard/shard_file.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

// Names that the journal may hold.
constexpr const char* kJournalNames =
    "shard-[0-9]+|part-[0-9]+-of-[0-9]+|(manifest\\.json|index\\.bin|quarantine\\.jsonl|report\\."
    "html)(\\.tmp|\\.old)?|retina-probe-.*";  // can_map_files()

std::string name_of_finished(std::size_t shard) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "shard-%05zu", shard);
  return name.data();
}

std::string name_of_part(const PackPart& part) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "part-%05zu-of-%05zu", part.number, part.count);
  return name.data();
}

// Returns the files and folders in a folder, in order; none where it cannot be read.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; entry != end; entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> shard_names(const std::string& folder) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_shard_file_name(name); });
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

SettingValues settings_of(const Manifest& manifest) {
  const ManifestOptions& options = manifest.options;
  const TileRule tile = options.tile.value_or(TileRule());
  return {{"annotations",
           cat(manifest.annotations_size_bytes, " bytes, xxh3 ", hex64(manifest.annotations_xxh3))},
          {"shard-size", cat(options.shard_size_bytes)},
          {"max-side", cat(options.max_side_px)},
          {"quality", cat(options.quality)},
          {"encoding", word_of(kImageEncodings, options.encoding)},
          {"convert", options.convert ? "on" : "off"},
          {"stretch", options.stretch.empty() ? "none" : options.stretch},
          {"exif", word_of(kExifPolicies, options.exif)},
          {"check", word_of(kImageChecks, options.check)},
          {"tile", cat(tile.side_px)},
          {"tile-overlap", shortest(tile.overlap)},
          {"tile-visibility", shortest(tile.visibility)},
          {"tile-empty", shortest(tile.empty)},
          {"split", options.part.empty() ? "none" : options.part},
          {"part", options.pack_part.empty() ? "none" : options.pack_part}};
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
    std::string from = finished_shard_path(output, shard);
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

std::string journal_folder(const std::string& output) {
  return output + "/.packing";
}

std::string finished_folder(const std::string& output, std::size_t shard) {
  return journal_folder(output) + "/" + name_of_finished(shard);
}

std::string finished_shard_path(const std::string& output, std::size_t shard) {
  return finished_folder(output, shard) + "/" + shard_file_name(0, 1);
}

std::string part_folder(const std::string& output, const PackPart& part) {
  return journal_folder(output) + "/" + name_of_part(part);
}

std::vector<PackPart> begun_parts(const std::string& output) {
  std::vector<PackPart> parts;
  for (const std::string& name : names_in(journal_folder(output))) {
    PackPart part;
    if (std::sscanf(name.c_str(), "part-%5zu-of-%5zu", &part.number, &part.count) == 2 &&
        name_of_part(part) == name) {
      parts.push_back(part);
    }
  }
  return parts;
}

void make_finished_folder(const std::string& output, std::size_t shard) {
  // Not its parents, too: a mount that is gone must not be packed into as a folder.
  const std::string folder = finished_folder(output, shard);
  std::error_code code;
  fs::create_directory(folder, code);
  if (code) {
    throw Error(ErrorKind::kCannotCreate,
                cat(folder, ": cannot create the folder (", code.message(), ")"));
  }
  sync_path(journal_folder(output));
}

bool holds_work(const std::string& output) {
  return is_unpublished(output) || !begun_parts(output).empty() ||
         path_exists(finished_shard_path(output, 0));
}

void keep_finished(const std::string& output, std::size_t shard_count) {
  std::set<std::string> kept;
  for (std::size_t shard = 0; shard < shard_count; ++shard) kept.insert(name_of_finished(shard));
  for (const PackPart& part : begun_parts(output)) kept.insert(name_of_part(part));
  for (const std::string& name : names_in(journal_folder(output))) {
    std::error_code ignored;
    if (!kept.contains(name)) fs::remove_all(journal_folder(output) + "/" + name, ignored);
  }
}

void remove_journal(const std::string& output) {
  std::error_code ignored;
  fs::remove_all(journal_folder(output), ignored);
}

void remove_parts(const std::string& output) {
  const std::vector<PackPart> parts = begun_parts(output);
  for (const PackPart& part : parts) {
    std::error_code code;
    fs::remove_all(part_folder(output, part), code);
    // Mounts keep files that are open, such as locks.
    if (!code || code == std::errc::directory_not_empty) continue;
    throw Error(ErrorKind::kIo,
                cat(part_folder(output, part), ": cannot be removed (", code.message(), ")"),
                "fix the mount, then run the same command again");
  }
  // A power cut must not bring them back beside the set that is published next.
  if (!parts.empty()) sync_path(journal_folder(output));
}

void check_journal_present(const std::string& output) {
  if (path_exists(journal_folder(output))) return;
  throw Error(ErrorKind::kIo, cat(journal_folder(output), ": has vanished while packing"),
              "fix the mount or restore the folder, then run the same command again");
}

std::string input_differences(const Manifest& there, const Manifest& wanted) {
  return differences(settings_of(there), settings_of(wanted));
}

void check_same_input(const std::string& folder, const Manifest& there, const Manifest& wanted) {
  const std::string list = input_differences(there, wanted);
  if (list.empty()) return;
  throw Error(ErrorKind::kConfig, cat(folder, ": was packed with other options: ", list),
              kOtherInputHint);
}

void check_is_ours(const std::string& output) {
  for (const std::string& name : names_in(journal_folder(output))) {
    if (is_clutter(name) || name_matches(name, kJournalNames)) continue;
    throw Error(ErrorKind::kConfig,
                cat(journal_folder(output), ": holds ", escaped(name),
                    ", which does not look like coco-pack's"),
                "choose another --output, or move that file away");
  }
  const std::vector<std::string> files = set_files(output);
  if (files.empty()) return;
  if (is_folder(journal_folder(output)) && files.front() != kManifestFile) return;
  // Either is enough when the other was lost or damaged.
  if (is_manifest(output + "/" + kManifestFile) || is_index(output + "/" + kIndexFile)) return;
  throw Error(ErrorKind::kConfig,
              cat(output, ": holds ", files.front(), ", which does not look like coco-pack's"),
              "choose another --output, or move these files away");
}

bool holds_set(const std::string& output) {
  if (path_exists(output + "/" + kManifestFile)) return true;
  return !is_folder(journal_folder(output)) && !set_files(output).empty();
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
  if (names_in(path_).size() > 1) return;
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
  if (!is_folder(journal_folder(output))) return;
  try {
    const FolderLock lock(output);
    if (!holds_work(output)) remove_journal(output);
  } catch (const Error&) {
    // A folder that cannot be written, or that another process is using.
  }
}

bool is_unpublished(const std::string& output) {
  return path_exists(journal_folder(output) + "/" + kManifestFile);
}

bool publish_whole_set(const std::string& output) {
  if (!is_unpublished(output)) return false;
  const std::string path = journal_folder(output) + "/" + kManifestFile;
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
