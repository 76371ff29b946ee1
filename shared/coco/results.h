// COCO's result format for boxes: a JSON array of {"image_id", "category_id", "bbox", "score"}.
// retina-eval writes it as detections.json and scores it with --detections.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/coco/entry_reader.h"
#include "shared/coco/instances.h"

namespace retina {

struct Detection {
  std::int64_t image_id = 0, category_id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height in pixels of the original image
  double score = 0;
};

// Reads results in the file's order; an empty array is fine, and so are ids that are not in the
// ground truth. Throws kNoInput / kIo (reading) and kData (not JSON, not an array of objects, a
// missing key, a wrong type, a box or score that is not finite, a negative width or height), naming
// the file and the entry.
std::vector<Detection> read_results(const std::string& path, const ReadingPieces& pieces = {});

// Returns the file name of an image; empty if it is not known.
using FileNameOf = std::function<std::string_view(std::int64_t image_id)>;

// Returns a finder for the images of a ground truth, which must outlive it.
FileNameOf file_name_finder(const Instances& truth);

// Throws kData if most of the first entries that name their image's file (as write_results() does)
// name another one than `file_name_of` knows: ids of another set's images would be scored without a
// warning. Folders in front, endings and case do not count.
void check_file_names(const std::string& path, const FileNameOf& file_name_of);

// Writes atomically; f64 as the shortest text that reads back equal. Each entry names its image's
// file as the last field, which COCO's own tools and read_results() skip.
void write_results(const std::string& path, const std::vector<Detection>& detections,
                   const FileNameOf& file_name_of = {});

}  // namespace retina
