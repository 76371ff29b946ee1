// --output-format yolo and csv: the detections of --images as other tools, and coco-pack, read
// them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/coco/results.h"

namespace retina {

inline constexpr int kPixelDigits = 7;  // precision of an f32 coordinate in pixels

// Returns `value` as printf's %g writes it with so many digits, in any locale; all of these formats
// and geojson.h use it.
std::string rounded(double value, int digits);

// Returns the name of an image's label file: the image's path with the ending .txt, as coco-pack
// and Ultralytics look for it, without any part that leads to a folder above.
std::string yolo_label_name(const std::string& image_name);

// Throws kConfig where two images would share a label file, or a name would be too long.
void check_yolo_label_names(const std::vector<std::string>& image_names);

// Returns YOLO's labels, a line for each detection, with six digits as Ultralytics' save_txt and
// save_conf write it: CLASS CX CY WIDTH HEIGHT CONFIDENCE, the class by its place in data.yaml from
// 0 on, the box as shares of the image's sides.
std::string yolo_labels(const ImageInfo& image, std::span<const Detection> found,
                        const CategoryMap& categories);

// Returns data.yaml with the names of the classes.
std::string yolo_data(const CategoryMap& categories);

// Returns a table with a header line and a line for each detection, RFC 4180 except that lines end
// with "\n": corners in pixels, fields with separators, quotes or line ends in quotes. An image
// without detections has no line. `images` have the ids 1, 2, ...; names in UTF-8.
std::string detections_csv(const std::vector<ImageInfo>& images,
                           const std::vector<Detection>& detections, const CategoryMap& categories);

}  // namespace retina
