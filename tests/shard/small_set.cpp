#include "tests/shard/small_set.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/numeric/random.h"
#include "shared/shard/image_index.h"
#include "shared/shard/manifest.h"
#include "shared/shard/quarantine.h"
#include "shared/shard/shard_writer.h"

namespace retina {
namespace {

constexpr int kClassCount = 3;

std::size_t small_jpeg_bytes(std::uint64_t number) {
  const std::size_t sizes[] = {100, 1500, 2100, 4000, 9000, 30000};
  return sizes[number % 6] + number;
}

void publish(const std::string& folder, const std::string& bytes, ManifestFile& file) {
  write_file_atomically(folder + "/" + file.name, bytes);
  file.size_bytes = bytes.size();
  file.xxh3 = xxh3(bytes);
}

void count(const Record& record, Manifest& manifest) {
  manifest.counts.images += 1;
  if (record.label) {
    manifest.label_counts[static_cast<std::size_t>(*record.label)] += 1;
    return;
  }
  manifest.counts.images_without_boxes += record.annotations.empty() ? 1 : 0;
  for (const RecordAnnotation& annotation : record.annotations) {
    const bool trainable = is_trainable(annotation, record.width, record.height);
    manifest.counts.boxes += 1;
    manifest.counts.crowds += annotation.iscrowd ? 1 : 0;
    manifest.counts.trainable += trainable ? 1 : 0;
    manifest.counts.degenerate += !trainable && !annotation.iscrowd ? 1 : 0;
    manifest.label_counts[static_cast<std::size_t>(annotation.label)] += 1;
  }
}

IndexEntry entry_of(const Record& record, std::size_t shard, std::uint32_t place,
                    std::span<const int> labels) {
  const auto trainable = std::count_if(
      record.annotations.begin(), record.annotations.end(),
      [&](const RecordAnnotation& box) { return is_trainable(box, record.width, record.height); });
  return {.image_id = record.image_id,
          .width = record.width,
          .height = record.height,
          .box_count = static_cast<std::uint32_t>(record.annotations.size()),
          .trainable_count = static_cast<std::uint32_t>(trainable),
          .shard = static_cast<std::uint32_t>(shard),
          .place = place,
          .labels = labels};
}

}  // namespace

Record small_record(std::uint64_t number, std::size_t jpeg_bytes, std::string& storage) {
  const RandomStream random{.seed = number, .use = RandomUse::kTest};
  storage.resize(jpeg_bytes);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < jpeg_bytes; ++i, bits >>= 8) {
    if (i % 8 == 0) bits = random.bits(i);
    storage[i] = static_cast<char>(bits);
  }
  Record record{.image_id = 1000 - 7 * static_cast<std::int64_t>(number),
                .width = 100 + static_cast<int>(number),
                .height = 50,
                .image = storage};
  for (std::uint64_t i = 0; i < number % 5; ++i) {
    record.annotations.push_back(
        {.id = static_cast<std::int64_t>(i) - 2,
         .bbox = {random.unit(i) * 90, random.unit(i + 50) * 40, i == 2 ? 0 : 7.1, 1e-3},
         .area = random.unit(i + 100) * 1e5,
         .label = static_cast<int>(i % kClassCount),
         .iscrowd = i == 3});
  }
  return record;
}

void write_small_set(const std::string& folder, std::size_t record_count,
                     std::uint64_t shard_size_bytes, Task task) {
  std::vector<std::string> images(record_count);
  std::vector<Record> records;
  for (std::size_t number = 0; number < record_count; ++number) {
    records.push_back(small_record(number, small_jpeg_bytes(number), images[number]));
    if (task != Task::kClassification) continue;
    records.back().annotations.clear();
    records.back().label = static_cast<int>(number % kClassCount);
  }
  write_records(folder, records, shard_size_bytes, task);
}

void write_records(const std::string& folder, const std::vector<Record>& records,
                   std::uint64_t shard_size_bytes, Task task) {
  make_folder(folder);
  Manifest manifest{.task = task,
                    .annotations_size_bytes = 10,
                    .annotations_xxh3 = 11,
                    .options = {.shard_size_bytes = shard_size_bytes}};
  manifest.categories = {
      {.id = 1, .name = "cat"}, {.id = 5, .name = "dog"}, {.id = 9, .name = "x"}};
  manifest.label_counts.assign(manifest.categories.size(), 0);
  ImageIndex index;
  std::optional<ShardWriter> writer;
  const auto part = [&](std::size_t shard) { return cat(folder, "/part-", shard); };
  const auto finish = [&] {
    if (writer) manifest.shards.push_back(writer->finish());
    writer.reset();
  };
  for (const Record& record : records) {
    const std::string bytes = encode_record(record);
    if (writer && !writer->has_space(bytes.size())) finish();
    if (!writer) writer.emplace(part(manifest.shards.size()), shard_size_bytes);
    index.push_back(
        entry_of(record, manifest.shards.size(), writer->append(bytes), entry_labels(record)));
    count(record, manifest);
  }
  finish();
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    manifest.shards[i].file.name = shard_file_name(i, manifest.shards.size());
    std::filesystem::rename(part(i), folder + "/" + manifest.shards[i].file.name);
  }
  manifest.index.name = kIndexFile;
  publish(folder, encode_index(index), manifest.index);
  manifest.quarantine.name = kQuarantineFile;
  manifest.counts.quarantined = 1;
  publish(folder,
          encode_quarantine({{.image_id = 3, .file_name = "a.jpg", .kind = "size", .reason = "r"}}),
          manifest.quarantine);
  write_file_atomically(folder + "/" + kManifestFile, encode_manifest(manifest));
}

void flip_bit(const std::string& path, std::uint64_t bit) {
  std::string bytes = read_file(path);
  bytes.at(bit / 8) = static_cast<char>(bytes.at(bit / 8) ^ (1 << (bit % 8)));
  write_plain_file(path, bytes);
}

std::vector<std::string> file_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void write_plain_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  RETINA_CHECK(file.good(), path);
}

}  // namespace retina
