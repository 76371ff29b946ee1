// A small COCO data set with everything that coco-pack must cope with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "preprocess/options.h"
#include "shared/base/error.h"
#include "shared/coco/instances.h"
#include "shared/shard/quarantine.h"

namespace retina {

// A file as it is, and the folders above it.
void write_plain(const std::string& path, const std::string& bytes);

// FOLDER/annotations.json and FOLDER/images: `good_count` noisy images of various sizes in two
// subfolders, 0..5 boxes each, crowds, degenerate boxes, category ids with gaps.
struct SmallCoco {
  std::string folder{};
  int good_count = 24;
  bool with_bad_images = false;  // seven more, one for each reason
  std::uint64_t seed = 0;        // of the images

  // Writes it; returns what was written.
  Instances write() const;
  // Options that pack it into FOLDER/NAME in small shards.
  PackOptions options(const std::string& name) const;
};

// The ids of the bad images and their kinds.
const std::map<std::int64_t, std::string>& bad_image_kinds();

// The message and the hint of what pack() refuses; "packed" where it takes all.
std::string pack_refusal(const PackOptions& options, ErrorKind kind = ErrorKind::kData);

// Name -> content of every file below the folder.
std::map<std::string, std::string> folder_content(const std::string& folder);

}  // namespace retina
