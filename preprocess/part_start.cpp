#include "preprocess/part_start.h"

#include <string>
#include <vector>

#include "preprocess/pack_journal.h"
#include "preprocess/source_images.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/parallel.h"
#include "shared/shard/little_endian.h"
#include "shared/shard/record.h"
#include "shared/shard/shard_writer.h"

namespace retina {
namespace {

constexpr std::size_t kHashBytes = 8, kSizeBytes = 8;

// Of the part's image files, as bytes of u64, and 0 for those that are missing.
std::string file_sizes(const PackOptions& options, const PackPlan& plan, const PackPart& part) {
  const auto [begin, end] = range_of_part(plan.images.size(), part);
  std::vector<std::uint64_t> sizes(end - begin);
  const SourceImages images(options.images_folder(), options.format, options.max_file_bytes());
  for_each_parallel(sizes.size(), options.thread_count(), [&, first = begin](std::size_t i) {
    sizes[i] = images.size_bytes(plan.images[first + i].file_name).value_or(0);
  });
  std::string bytes;
  for (const std::uint64_t size : sizes) put(bytes, size);
  return bytes;
}

// The same from the journal, or put there.
std::string kept_file_sizes(const PackOptions& options, const Manifest& begun, const PackPlan& plan,
                            const PackPart& part) {
  const std::string path = sizes_path(options.output, part);
  const auto hash_of = [&](const std::string& sizes) {
    return xxh3(cat(hex64(begun.annotations_xxh3), hex64(xxh3(sizes))));
  };
  const auto [begin, end] = range_of_part(plan.images.size(), part);
  // Any part may write or remove it at any time, and can do without.
  try {
    const std::string kept = path_exists(path) ? read_file(path) : "";
    if (kept.size() == kHashBytes + (end - begin) * kSizeBytes) {
      std::string sizes = kept.substr(kHashBytes);
      if (get<std::uint64_t>(kept, 0) == hash_of(sizes)) return sizes;
    }
  } catch (const Error&) {
  }
  std::string sizes = file_sizes(options, plan, part);
  try {
    make_folder(journal_folder(options.output));
    std::string kept;
    put(kept, hash_of(sizes));
    write_file_atomically(path, kept + sizes);
  } catch (const Error&) {
  }
  return sizes;
}

}  // namespace

std::uint64_t bytes_before_part(const PackOptions& options, const Manifest& begun,
                                const PackPlan& plan, const PackPart& part) {
  if (options.max_side_px || options.tile_px) return 0;
  // Its own first, then those that the parts before it may have asked for meanwhile.
  std::vector<std::string> sizes(part.number);
  for (std::size_t number = part.number; number >= 1; --number) {
    sizes[number - 1] =
        kept_file_sizes(options, begun, plan, {.number = number, .count = part.count});
  }

  // Fills shards up to the part's first record.
  ShardSpace space(options.shard_size_bytes);
  for (std::size_t number = 1; number <= part.number; ++number) {
    const auto [begin, end] =
        range_of_part(plan.images.size(), {.number = number, .count = part.count});
    for (std::size_t i = begin; i < end; ++i) {
      const auto file_bytes = get<std::uint64_t>(sizes[number - 1], (i - begin) * kSizeBytes);
      if (file_bytes == 0) continue;
      const PlannedImage& image = plan.images[i];
      const std::size_t record_bytes =
          record_size_bytes({.file_name = image.file_name,
                             .annotations = {image.annotations.begin(), image.annotations.end()},
                             .label = image.label}) +
          file_bytes;
      const bool is_full = !space.has_space(record_bytes);
      if (number == part.number) return is_full ? 0 : space.used_bytes();
      if (is_full) space = ShardSpace(options.shard_size_bytes);
      space.add(record_bytes);
    }
  }
  return 0;
}

}  // namespace retina
