// `coco-pack --verify`: reads every byte of a shard set and says what is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "shared/shard/manifest.h"

namespace retina {

struct VerifyOptions {
  std::string folder{};   // or URL
  std::string scratch{};  // as in ShardFile; holds one shard of a URL at a time
  int thread_count = 1;   // decoding
  // Called with each problem, one line of text, as soon as it is found.
  std::function<void(const std::string&)> on_problem{};
};

struct VerifyResult {
  std::int64_t problem_count = 0;
  Task task = Task::kDetection;
  ManifestCounts counts{};  // records and boxes that were found whole
  std::uint64_t size_bytes = 0;
};

// In this order: the manifest's own hash; size and hash of every file in it; the quarantine list;
// the index; of every record header, payload, annotations, index entry, JPEG data and image size;
// the counts; of a set without tiles, whether an image is there twice. Finds any flipped bit in any
// file of the manifest: each lies under a whole-file hash. Other files in the folder, such as the
// page, are not looked at. Damage is a result, not an exception. Throws kNoInput when the folder
// holds no part of a data set, or a file of the URL is not there or may not be read; kData when the
// set is of a newer version, or the URL's manifest is none.
VerifyResult verify_shards(const VerifyOptions& options);

}  // namespace retina
