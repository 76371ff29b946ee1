#include "preprocess/summary.h"

#include <algorithm>
#include <cstdint>

#include "preprocess/page/data_page.h"
#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/printable.h"
#include "shared/shard/quarantine.h"

namespace retina {
namespace {

std::uint64_t total_bytes(const Manifest& manifest) {
  std::uint64_t bytes = manifest.index.size_bytes + manifest.quarantine.size_bytes;
  for (const ManifestShard& shard : manifest.shards) bytes += shard.file.size_bytes;
  return bytes;
}

// Most hints that are printed: a folder of many mistakes has its list.
constexpr std::size_t kShownHints = 3;

std::string quarantine_by_kind(const std::string& output) {
  const std::string path = output + "/" + kQuarantineFile;
  const std::vector<QuarantinedImage> all = decode_quarantine(read_file(path), path);
  std::string text = cat("  quarantined   ", kinds_text(all), "; see ", path, "\n");
  const std::vector<HintCount> hints = count_hints(all);
  for (std::size_t i = 0; i < std::min(hints.size(), kShownHints); ++i) {
    text += cat("  hint          ", hints[i].hint, " (", hints[i].count,
                hints[i].count == 1 ? " image)\n" : " images)\n");
  }
  return text;
}

// Boxes that training ignores, as record.h's training_box says.
std::string degenerate_boxes(const PackResult& result) {
  const std::int64_t count = result.degenerate_annotations;
  std::string boxes;
  for (const std::string& one : result.first_degenerate)
    boxes += cat(boxes.empty() ? "" : ", ", one);
  const bool more = count > static_cast<std::int64_t>(result.first_degenerate.size());
  return cat("  not trained   ", counted(count, "box", "boxes"),
             " without width or height inside the image: annotations ", boxes, more ? ", ..." : "",
             "\n");
}

std::string describe_classified(const Manifest& manifest) {
  const auto empty = std::count(manifest.label_counts.begin(), manifest.label_counts.end(), 0);
  return cat("  images        ", manifest.counts.images, " (", manifest.counts.quarantined,
             " quarantined)\n  classes       ", manifest.categories.size(), " (", empty,
             " without images)\n");
}

std::string describe_tiles(const Manifest& manifest) {
  const ManifestCounts& counts = manifest.counts;
  const TileRule& rule = *manifest.options.tile;
  return cat("  images        ", counts.tiled_images, " (", counts.quarantined,
             " quarantined), with ", counts.whole_boxes, " boxes\n  tiles         ", counts.images,
             " (", counts.images_without_boxes, " without boxes) of ", rule.side_px,
             " px, overlap ", shortest(rule.overlap), "\n  boxes         ", counts.boxes,
             " in tiles (", counts.trainable, " to train on, of these ", counts.cut, " cut; ",
             counts.partial, " partial, ", counts.crowds, " crowds, ", counts.degenerate,
             " degenerate)\n  categories    ", manifest.categories.size(), "\n");
}

std::string describe_boxes(const Manifest& manifest) {
  if (manifest.options.tile) return describe_tiles(manifest);
  const ManifestCounts& counts = manifest.counts;
  return cat("  images        ", counts.images, " (", counts.images_without_boxes,
             " without boxes, ", counts.quarantined, " quarantined)\n  boxes         ",
             counts.boxes, " (", counts.trainable, " to train on, ", counts.crowds, " crowds, ",
             counts.degenerate, " degenerate)\n  categories    ", manifest.categories.size(), "\n");
}

}  // namespace

std::string text_table(std::vector<TextRow> rows) {
  for (TextRow& row : rows) {
    for (std::string& cell : row) cell = escaped(cell);
    row.front().insert(0, "  ");
  }
  return aligned_table(rows, ToTheLeft::kAll);
}

std::string describe_encoding(const ManifestOptions& options) {
  return options.encoding == ImageEncoding::kRaw ? "raw pixels"
                                                 : cat("JPEG quality ", options.quality);
}

std::string images_text(const ManifestCounts& counts) {
  return counts.tiled_images > 0
             ? cat(counted(counts.images, "tile"), " of ", counted(counts.tiled_images, "image"))
             : counted(counts.images, "image");
}

std::string describe_counts(const Manifest& manifest) {
  const ManifestCounts& counts = manifest.counts;
  std::string text = manifest.task == Task::kClassification ? describe_classified(manifest)
                                                            : describe_boxes(manifest);
  text += cat("  shards        ", manifest.shards.size(), ", ",
              human_bytes(static_cast<double>(total_bytes(manifest))), "\n");
  if (manifest.options.max_side_px > 0) {
    text += cat("  rescaled      ", counted(counts.rescaled, "image"), " to at most ",
                manifest.options.max_side_px, " px, ", describe_encoding(manifest.options), "\n");
  }
  if (manifest.options.tile) {
    text += cat("  encoded       ", describe_encoding(manifest.options), "\n");
  } else if (counts.converted > 0) {
    text += cat("  converted     ", counted(counts.converted, "image"), ", ",
                describe_encoding(manifest.options), "\n");
  }
  return text;
}

std::string describe_result(const std::string& output, const PackResult& result) {
  std::string text = cat(output, ": packed\n", describe_counts(result.manifest));
  if (!result.first_degenerate.empty()) text += degenerate_boxes(result);
  if (result.manifest.counts.quarantined > 0) text += quarantine_by_kind(output);
  return text;
}

}  // namespace retina
