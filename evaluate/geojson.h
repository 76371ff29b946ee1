// --output-format geojson: detections on GeoTIFFs as GIS programs read them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/coco/results.h"
#include "shared/image/geo_tags.h"

namespace retina {

// `tags` belong to `images`, in the same order; an image that is not a GeoTIFF has none.

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
