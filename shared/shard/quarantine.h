// quarantine.jsonl: the images that were left out, one JSON object a line.
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

  friend bool operator==(const QuarantinedImage&, const QuarantinedImage&) = default;
};

std::string encode_quarantine(const std::vector<QuarantinedImage>& images);

// Throws kData naming the line.
std::vector<QuarantinedImage> decode_quarantine(std::string_view text, const std::string& name);

}  // namespace retina
