// The text that coco-pack prints on stdout.
#pragma once

#include <string>
#include <vector>

#include "preprocess/packer.h"
#include "shared/base/text_table.h"
#include "shared/shard/manifest.h"

namespace retina {

// Columns of text, each as wide as its widest cell; a row a line, indented by two spaces. Control
// characters are escaped: the names are those of a foreign file.
std::string text_table(std::vector<TextRow> rows);

// "12 images", "300 tiles of 12 images".
std::string images_text(const ManifestCounts& counts);

// Images, boxes, shards and bytes, and what was quarantined.
std::string describe_counts(const Manifest& manifest);

// The end of a packing: the counts and the quarantined images by kind.
std::string describe_result(const std::string& output, const PackResult& result);

}  // namespace retina
