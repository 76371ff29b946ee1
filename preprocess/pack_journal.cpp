#include "preprocess/pack_journal.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/shard/image_index.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = ".packing";
constexpr const char* kIdentityFile = "options.json";
// Who wrote the shards here: those of another version would not make the same bytes.
constexpr const char* kWriterKey = "index_version";

std::string numbered(std::size_t shard, const char* ending) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "shard-%05zu%s", shard, ending);
  return name.data();
}

constexpr const char* kPart = "part";
constexpr const char* kSizes = "sizes";

std::string name_of_part(const char* kind, const PackPart& part) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "%s-%05zu-of-%05zu", kind, part.number, part.count);
  return name.data();
}

std::optional<PackPart> part_of_name(const char* kind, const std::string& name) {
  PackPart part;
  const std::size_t begin = std::string(kind).size() + 1;
  if (name.size() < begin) return std::nullopt;
  const char* const numbers = name.c_str() + begin;
  if (std::sscanf(numbers, "%5zu-of-%5zu", &part.number, &part.count) != 2) return std::nullopt;
  return name_of_part(kind, part) == name ? std::optional(part) : std::nullopt;
}

// With its temporary one.
bool is_of_sizes(const std::string& name) {
  return part_of_name(kSizes, name.substr(0, name.rfind(".tmp"))).has_value();
}

// What a journal without options or notes holds.
struct Unsealed {
  bool has_parts = false;
  std::string foreign{};  // the first such file; empty: none
};

Unsealed look_at_unsealed(const std::string& folder) {
  Unsealed found;
  std::error_code code;
  const std::string half = std::string(kIdentityFile) + ".tmp";
  for (fs::directory_iterator entry(folder, code), end; entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (part_of_name(kPart, name) || is_of_sizes(name)) {
      found.has_parts = true;
    } else if (name != half && !is_dropping(name) &&
               (found.foreign.empty() || name < found.foreign)) {
      found.foreign = name;
    }
  }
  return found;
}

void remove_all_but(const std::string& folder, const std::set<std::string>& kept) {
  std::error_code ignored;
  std::vector<fs::path> doomed;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    if (kept.count(entry->path().filename().string()) == 0) doomed.push_back(entry->path());
  }
  for (const fs::path& path : doomed) fs::remove_all(path, ignored);
}

// The first line is the hash of the rest: a note is whole or is not trusted.
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

std::string note_path(const std::string& folder, std::size_t shard) {
  return folder + "/" + numbered(shard, ".json");
}

std::string encode_input(const Manifest& manifest) {
  JsonWriter json;
  json.begin_object()
      .field("annotations_bytes", manifest.annotations_size_bytes)
      .field("annotations_xxh3", hex64(manifest.annotations_xxh3));
  write_manifest_options(json, manifest.options);
  json.field(kWriterKey, std::uint64_t{kIndexVersion}).end_object();
  return seal(json.text());
}

// Nothing of another version's.
std::optional<Manifest> decode_input(const std::string& text, const std::string& path) {
  const JsonFile file = JsonFile::parse(text, path);
  const JsonView root = file.root();
  if (!root.has(kWriterKey) || root.at(kWriterKey).as_uint() != kIndexVersion) return std::nullopt;
  return Manifest{
      .annotations_size_bytes = root.at("annotations_bytes").as_uint(),
      .annotations_xxh3 = parse_hex64(root.at("annotations_xxh3").as_string(), path),
      .options = read_manifest_options(root),
  };
}

std::string encode_note(const FinishedShard& finished) {
  JsonWriter json;
  json.begin_object()
      .field("bytes", finished.shard.file.size_bytes)
      .field("xxh3", hex64(finished.shard.file.xxh3))
      .field("tree_xxh3", hex64(finished.shard.tree_xxh3))
      .field("records", finished.shard.record_count)
      .field("next_image", static_cast<std::uint64_t>(finished.next.image))
      .field("next_tile", static_cast<std::uint64_t>(finished.next.tile))
      .field("quarantine", encode_quarantine(finished.quarantined))
      .key("sources")
      .begin_array();
  for (const SourceFile& source : finished.sources) {
    json.begin_object()
        .field("bytes", source.size_bytes)
        .field("modified_ns", source.modified_ns)
        .field("xxh3", hex64(source.xxh3))
        .end_object();
  }
  json.end_array().end_object();
  return seal(json.text());
}

std::vector<SourceFile> decode_sources(const JsonView& root, const std::string& path) {
  std::vector<SourceFile> sources;
  const JsonView list = root.at("sources");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView item = list.at(i);
    sources.push_back({.size_bytes = item.at("bytes").as_uint(),
                       .modified_ns = item.at("modified_ns").as_int(),
                       .xxh3 = parse_hex64(item.at("xxh3").as_string(), path)});
  }
  return sources;
}

FinishedShard decode_note(const std::string& text, const std::string& path) {
  const JsonFile file = JsonFile::parse(text, path);
  const JsonView root = file.root();
  return {
      .shard = {.file = {.size_bytes = root.at("bytes").as_uint(),
                         .xxh3 = parse_hex64(root.at("xxh3").as_string(), path)},
                .record_count = root.at("records").as_int(),
                .tree_xxh3 = parse_hex64(root.at("tree_xxh3").as_string(), path)},
      .next = {.image = root.at("next_image").as_uint(), .tile = root.at("next_tile").as_uint()},
      .quarantined = decode_quarantine(root.at("quarantine").as_string(), path),
      .sources = decode_sources(root, path)};
}

constexpr const char* kOtherInputHint =
    "choose another --output, or replace the data set with --overwrite";

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
          {"split", options.part.empty() ? "none" : options.part}};
}

}  // namespace

std::string input_differences(const Manifest& there, const Manifest& wanted) {
  return differences(settings_of(there), settings_of(wanted));
}

void check_same_input(const std::string& folder, const Manifest& there, const Manifest& wanted) {
  const std::string& part = there.options.pack_part;
  if (part != wanted.options.pack_part) {
    throw Error(ErrorKind::kData,
                cat(folder, ": holds ", part.empty() ? "a whole set" : cat("part ", part)),
                "restore it, or pack it again with --overwrite");
  }
  const std::string list = input_differences(there, wanted);
  if (list.empty()) return;
  throw Error(ErrorKind::kConfig, cat(folder, ": was packed with other options: ", list),
              kOtherInputHint);
}

Error changed_input_images(const std::string& folder, const std::string& change) {
  return {ErrorKind::kConfig,
          cat(folder, ": the input images have changed since the set was packed: ", change),
          kOtherInputHint};
}

PackJournal::PackJournal(const std::string& output, const Manifest& wanted, bool overwrite)
    : folder_(journal_folder(output)) {
  const std::string path = folder_ + "/" + kIdentityFile;
  if (const auto there = journal_input(output)) {
    if (!overwrite) check_same_input(output, *there, wanted);
    const bool is_same_part = there->options.pack_part == wanted.options.pack_part;
    if (is_same_part && input_differences(*there, wanted).empty()) return;
  } else if (open_seal(path)) {
    log_info(output, ": the packing was begun by another version and starts afresh");
  } else if (path_exists(note_path(folder_, 0)) && !overwrite) {
    throw Error(ErrorKind::kData, cat(path, ": is damaged or gone, but finished shards are there"),
                "restore the file, or start afresh with --overwrite");
  }
  remove_journal(output);
  make_folder(folder_);
  try {
    write_file_atomically(path, encode_input(wanted));
  } catch (const Error&) {
    remove_journal(output);
    throw;
  }
}

void PackJournal::add(std::size_t shard, const FinishedShard& finished) const {
  write_file_atomically(note_path(folder_, shard), encode_note(finished));
}

std::vector<FinishedShard> PackJournal::read() const {
  std::vector<FinishedShard> notes;
  while (const auto text = open_seal(note_path(folder_, notes.size()))) {
    notes.push_back(decode_note(*text, note_path(folder_, notes.size())));
  }
  return notes;
}

void PackJournal::forget_from(std::size_t shard) const {
  std::set<std::string> kept = {kIdentityFile};
  for (std::size_t i = 0; i < shard; ++i) {
    kept.insert(numbered(i, ".json"));
    kept.insert(numbered(i, ".lmdb"));
  }
  remove_all_but(folder_, kept);
}

std::string journal_folder(const std::string& output) {
  return output + "/" + kFolder;
}

std::string journal_shard_path(const std::string& output, std::size_t shard) {
  return journal_folder(output) + "/" + numbered(shard, ".lmdb");
}

std::optional<Manifest> journal_input(const std::string& output) {
  const std::string path = journal_folder(output) + "/" + kIdentityFile;
  const auto text = open_seal(path);
  return text ? decode_input(*text, path) : std::nullopt;
}

std::string part_folder(const std::string& output, const PackPart& part) {
  return journal_folder(output) + "/" + name_of_part(kPart, part);
}

std::vector<PackPart> begun_parts(const std::string& output) {
  std::vector<PackPart> parts;
  std::error_code code;
  for (fs::directory_iterator entry(journal_folder(output), code), end; entry != end;
       entry.increment(code)) {
    if (const auto part = part_of_name(kPart, entry->path().filename().string()))
      parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), [](const PackPart& a, const PackPart& b) {
    return std::pair(a.count, a.number) < std::pair(b.count, b.number);
  });
  return parts;
}

std::string sizes_path(const std::string& output, const PackPart& part) {
  return journal_folder(output) + "/" + name_of_part(kSizes, part);
}

void remove_sizes(const std::string& output) {
  std::error_code code;
  std::vector<std::string> doomed;
  for (fs::directory_iterator entry(journal_folder(output), code), end; entry != end;
       entry.increment(code)) {
    if (is_of_sizes(entry->path().filename().string())) doomed.push_back(entry->path().string());
  }
  for (const std::string& path : doomed) remove_file(path);
}

void begin_merge(const std::string& output, const Manifest& input) {
  std::set<std::string> kept = {kIdentityFile};  // what is left at any moment is known as ours
  for (const PackPart& part : begun_parts(output)) kept.insert(name_of_part(kPart, part));
  remove_all_but(journal_folder(output), kept);
  write_file_atomically(journal_folder(output) + "/" + kIdentityFile, encode_input(input));
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
  if (path_exists(journal_folder(output) + "/" + kIdentityFile)) return;
  throw Error(ErrorKind::kIo, cat(journal_folder(output), ": has vanished while packing"),
              "fix the mount or restore the folder, then run the same command again");
}

JournalKind journal_kind(const std::string& output) {
  const std::string folder = journal_folder(output);
  if (!path_exists(folder)) return JournalKind::kNone;
  if (open_seal(folder + "/" + kIdentityFile) || open_seal(note_path(folder, 0))) {
    return JournalKind::kOurs;
  }
  const bool is_ours = is_folder(folder) && look_at_unsealed(folder).foreign.empty();
  return is_ours ? JournalKind::kOurs : JournalKind::kForeign;
}

std::string foreign_beside_parts(const std::string& output) {
  const Unsealed found = look_at_unsealed(journal_folder(output));
  return found.has_parts ? found.foreign : "";
}

void remove_journal(const std::string& output) {
  if (!is_folder(journal_folder(output))) return;
  // By its last file it is known as ours after a power cut, too.
  remove_all_but(journal_folder(output), {kIdentityFile});
  sync_path(journal_folder(output));
  std::error_code ignored;
  fs::remove_all(journal_folder(output), ignored);
}

}  // namespace retina
