// --output-format yolo, csv and geojson: the detections of --images as other tools, and coco-pack,
// read them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/coco/results.h"
#include "shared/image/geo_tags.h"

namespace retina {

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

// Detections on GeoTIFFs as GIS programs read them. `tags` belong to `images`, in the same order;
// an image that is not a GeoTIFF has none.

// Returns the EPSG number of the coordinate system that they share, 0 where it is not known or no
// image has one. Throws kConfig where images have different ones: a GeoJSON file has one. Call it
// before detecting.
int shared_epsg(const std::vector<ImageInfo>& images,
                const std::vector<std::optional<GeoTags>>& tags);

struct DetectionsGeojson {
  std::string text{};
  std::size_t left_out_count = 0;  // images that are not GeoTIFFs
};

// Returns a FeatureCollection (RFC 7946) with a polygon for each detection, in the order of
// `detections`: the four corners of its box in the coordinates of its image's file, x before y,
// anticlockwise. The properties are image, class and score and, as in xView, for coco-pack,
// image_id, type_id (the category's id) and bounds_imcoords (x1,y1,x2,y2 in pixels). "crs", in
// GDAL's form, names the coordinate system, unless that is EPSG:4326, RFC 7946's own, or not known.
// `images` have the ids 1, 2, ...; names in UTF-8. Throws as shared_epsg().
DetectionsGeojson detections_geojson(const std::vector<ImageInfo>& images,
                                     const std::vector<std::optional<GeoTags>>& tags,
                                     const std::vector<Detection>& detections,
                                     const CategoryMap& categories);

}  // namespace retina
