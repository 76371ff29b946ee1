// quarantine.jsonl: the quarantined images, one JSON object a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace retina {

struct QuarantinedImage {
  std::int64_t image_id = 0;
  std::string file_name{};
  // One word for counting: "missing", "name", "too-large", "format", "damaged", "size".
  std::string kind{};
  std::string reason{};  // one sentence for people
  std::string hint{};    // the fix if one is known, the same words for all images that it helps

  friend bool operator==(const QuarantinedImage&, const QuarantinedImage&) = default;
};

// A hint with the number of images that it helps; the most helpful first.
struct HintCount {
  std::string hint{};
  std::size_t count = 0;
};
std::vector<HintCount> count_hints(const std::vector<QuarantinedImage>& images);

std::string encode_quarantine(const std::vector<QuarantinedImage>& images);

// Parses the lines. Throws kData naming the line.
std::vector<QuarantinedImage> decode_quarantine(std::string_view text, const std::string& name);

}  // namespace retina
