#include "preprocess/pack_journal.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <regex>
#include <string_view>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = ".packing";
constexpr const char* kIdentityFile = "options.json";

std::string numbered(std::size_t shard, const char* ending) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "shard-%05zu%s", shard, ending);
  return name.data();
}

// The first line is the hash of the rest: a note is whole or is not believed.
std::string seal(const std::string& text) {
  return hex64(xxh3(text)) + "\n" + text;
}

std::optional<std::string> open_seal(const std::string& path) {
  if (!path_exists(path)) return std::nullopt;
  const std::string sealed = read_file(path);
  const std::size_t line = sealed.find('\n');
  if (line == std::string::npos) return std::nullopt;
  std::string text = sealed.substr(line + 1);
  if (sealed.substr(0, line) != hex64(xxh3(text))) return std::nullopt;
  return text;
}

std::string encode_identity(const PackIdentity& identity, const std::string& overwriting) {
  JsonWriter json;
  json.begin_object()
      .field("annotations_bytes", identity.annotations_size_bytes)
      .field("annotations_xxh3", hex64(identity.annotations_xxh3))
      .field("shard_size_bytes", identity.options.shard_size_bytes)
      .field("max_side_px", identity.options.max_side_px)
      .field("quality", identity.options.quality)
      .field("overwriting", overwriting)
      .end_object();
  return seal(json.text());
}

PackIdentity decode_identity(const std::string& text, const std::string& path) {
  const JsonFile file = JsonFile::parse(text, path);
  const JsonView root = file.root();
  return {
      .annotations_size_bytes = root.at("annotations_bytes").as_uint(),
      .annotations_xxh3 = parse_hex64(root.at("annotations_xxh3").as_string(), path),
      .options = {.shard_size_bytes = root.at("shard_size_bytes").as_uint(),
                  .max_side_px = static_cast<int>(root.at("max_side_px").as_int()),
                  .quality = static_cast<int>(root.at("quality").as_int())},
  };
}

std::string encode_note(const FinishedShard& finished) {
  JsonWriter json;
  json.begin_object()
      .field("bytes", finished.shard.file.size_bytes)
      .field("xxh3", hex64(finished.shard.file.xxh3))
      .field("tree_xxh3", hex64(finished.shard.tree_xxh3))
      .field("records", finished.shard.record_count)
      .field("next_image", static_cast<std::uint64_t>(finished.next_image))
      .field("quarantine", encode_quarantine(finished.quarantined))
      .end_object();
  return seal(json.text());
}

FinishedShard decode_note(const std::string& text, const std::string& path) {
  const JsonFile file = JsonFile::parse(text, path);
  const JsonView root = file.root();
  return {.shard = {.file = {.size_bytes = root.at("bytes").as_uint(),
                             .xxh3 = parse_hex64(root.at("xxh3").as_string(), path)},
                    .record_count = root.at("records").as_int(),
                    .tree_xxh3 = parse_hex64(root.at("tree_xxh3").as_string(), path)},
          .next_image = root.at("next_image").as_uint(),
          .quarantined = decode_quarantine(root.at("quarantine").as_string(), path)};
}

template <class T>
void add_difference(std::string& list, const char* name, const T& there, const T& wanted) {
  if (there == wanted) return;
  list += cat(list.empty() ? "" : ", ", name, " (there: ", there, ", now: ", wanted, ")");
}

// "shard-size (there: 1, now: 2)"; empty without any.
std::string differences(const PackIdentity& there, const PackIdentity& wanted) {
  std::string list;
  if (there.annotations_xxh3 != wanted.annotations_xxh3 ||
      there.annotations_size_bytes != wanted.annotations_size_bytes) {
    list = "annotations (the file's content is another)";
  }
  add_difference(list, "shard-size", there.options.shard_size_bytes,
                 wanted.options.shard_size_bytes);
  add_difference(list, "max-side", there.options.max_side_px, wanted.options.max_side_px);
  add_difference(list, "quality", there.options.quality, wanted.options.quality);
  return list;
}

}  // namespace

PackIdentity identity_of(const Manifest& manifest) {
  return {.annotations_size_bytes = manifest.annotations_size_bytes,
          .annotations_xxh3 = manifest.annotations_xxh3,
          .options = manifest.options};
}

void check_same_identity(const std::string& folder, const PackIdentity& there,
                         const PackIdentity& wanted) {
  const std::string list = differences(there, wanted);
  if (list.empty()) return;
  throw Error(ErrorKind::kConfig, cat(folder, ": was packed with other options: ", list),
              "choose another --output, or replace the data set with --overwrite");
}

PackJournal::PackJournal(const std::string& output, const PackIdentity& identity,
                         const std::string& overwriting)
    : folder_(output + "/" + kFolder) {
  const std::string path = folder_ + "/" + kIdentityFile;
  if (const auto text = open_seal(path)) {
    check_same_identity(output, decode_identity(*text, path), identity);
    return;
  }
  if (path_exists(note_path(0))) {
    throw Error(ErrorKind::kData, cat(path, ": is damaged or has gone, finished shards are there"),
                "bring the file back, or start afresh with --overwrite");
  }
  remove_journal(output);
  make_folder(folder_);
  try {
    write_file_atomically(path, encode_identity(identity, overwriting));
  } catch (const Error&) {
    remove_journal(output);
    throw;
  }
}

void PackJournal::check_present() const {
  if (path_exists(folder_ + "/" + kIdentityFile)) return;
  throw Error(ErrorKind::kIo, cat(folder_, ": has vanished while packing"),
              "mend the mount or bring the folder back, then run the same command again");
}

std::string PackJournal::shard_path(std::size_t shard) const {
  return folder_ + "/" + numbered(shard, ".lmdb");
}

std::string PackJournal::note_path(std::size_t shard) const {
  return folder_ + "/" + numbered(shard, ".json");
}

void PackJournal::add(std::size_t shard, const FinishedShard& finished) const {
  write_file_atomically(note_path(shard), encode_note(finished));
}

std::vector<FinishedShard> PackJournal::read() const {
  std::vector<FinishedShard> notes;
  while (const auto text = open_seal(note_path(notes.size()))) {
    notes.push_back(decode_note(*text, note_path(notes.size())));
  }
  return notes;
}

void remove_journal(const std::string& output) {
  std::error_code ignored;
  fs::remove_all(output + "/" + kFolder, ignored);
}

bool continues_overwrite(const std::string& output, const PackIdentity& identity,
                         const std::string& images) {
  if (path_exists(output + "/" + kManifestFile)) return false;
  const std::string path = output + "/" + kFolder + "/" + kIdentityFile;
  const auto text = open_seal(path);
  if (!text) return false;
  const JsonFile file = JsonFile::parse(*text, path);
  return file.root().has("overwriting") && file.root().at("overwriting").as_string() == images &&
         differences(decode_identity(*text, path), identity).empty();
}

void remove_packed_files(const std::string& output) {
  static const std::regex kShardName(R"(shard-\d+-of-\d+\.lmdb)");
  remove_file(output + "/" + kManifestFile);
  std::error_code code;
  std::vector<fs::path> doomed;
  for (fs::directory_iterator entry(output, code), end; entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name == kIndexFile || name == kQuarantineFile || name == kFolder ||
        std::regex_match(name, kShardName)) {
      doomed.push_back(entry->path());
    }
  }
  for (const fs::path& path : doomed) fs::remove_all(path, code);
}

}  // namespace retina
