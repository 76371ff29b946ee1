// The text that coco-pack prints on stdout.
#pragma once

#include <string>
#include <vector>

#include "preprocess/packer.h"
#include "shared/shard/manifest.h"

namespace retina {

// Columns of text, each as wide as its widest cell.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) { add(std::move(head)); }
  // Control characters are escaped: the names are those of a foreign file.
  void add(std::vector<std::string> row);
  // Indented by two spaces, a line a row.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_{};
};

// Images, boxes, shards and bytes, and what was left out.
std::string describe_counts(const Manifest& manifest);

// The end of a packing: the counts and the quarantined images by kind.
std::string describe_result(const std::string& output, const PackResult& result);

}  // namespace retina
