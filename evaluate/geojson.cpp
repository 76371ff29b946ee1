#include "evaluate/geojson.h"

#include <algorithm>
#include <array>

#include "evaluate/detection_formats.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr int kWgs84 = 4326;
constexpr int kCoordinateDigits = 12;  // a hundredth of a millimetre in web maps' metres
constexpr int kScoreDigits = 6;        // as in the other formats

std::string json_text(const std::string& text) {
  return JsonWriter().value(text).text();
}

// Returns "x1,y1,x2,y2".
std::string corners_of(const std::array<double, 4>& box) {
  const auto& [left, top, width, height] = box;
  std::string text;
  for (const double number : {left, top, left + width, top + height}) {
    text += cat(text.empty() ? "" : ",", rounded(number, kPixelDigits));
  }
  return text;
}

// Returns the closed outline of a box.
std::string ring_of(const std::array<double, 4>& box, const GeoTags& tags) {
  const auto& [left, top, width, height] = box;
  std::array<std::array<double, 2>, 4> corners = {
      {{left, top}, {left, top + height}, {left + width, top + height}, {left + width, top}}};
  // Clockwise in an image that is not mirrored, since rows go down; anticlockwise on the map.
  const auto& t = tags.transform;
  if (t[1] * t[5] - t[2] * t[4] > 0) std::reverse(corners.begin(), corners.end());
  std::string text;
  for (std::size_t i = 0; i <= corners.size(); ++i) {
    const auto& [column, row] = corners[i % corners.size()];
    const auto [x, y] = tags.at(column, row);
    text += cat(i == 0 ? "" : ", ", "[", rounded(x, kCoordinateDigits), ", ",
                rounded(y, kCoordinateDigits), "]");
  }
  return text;
}

}  // namespace

int shared_epsg(const std::vector<ImageInfo>& images,
                const std::vector<std::optional<GeoTags>>& tags) {
  const auto has_tags = [](const std::optional<GeoTags>& one) { return one.has_value(); };
  const auto first = std::find_if(tags.begin(), tags.end(), has_tags);
  if (first == tags.end()) return 0;
  const auto name_of = [&](auto place) {
    return escaped(images[static_cast<std::size_t>(place - tags.begin())].file_name);
  };
  const auto text_of = [](int epsg) {
    return epsg == 0 ? "one without an EPSG number" : cat("EPSG:", epsg);
  };
  const auto is_same = [&](const GeoTags& one) {
    return one.epsg == (*first)->epsg && (one.epsg != 0 || one.keys == (*first)->keys);
  };
  for (auto other = first; other != tags.end(); ++other) {
    if (!other->has_value() || is_same(**other)) continue;
    throw Error(
        ErrorKind::kConfig,
        cat(name_of(other), ": its coordinate system is ", text_of((*other)->epsg), ", that of ",
            name_of(first), " is ", text_of((*first)->epsg)),
        "a GeoJSON file has one coordinate system: give the images of each by themselves, or "
        "write them again with one (gdalwarp -t_srs EPSG:NUMBER)");
  }
  return (*first)->epsg;
}

DetectionsGeojson detections_geojson(const std::vector<ImageInfo>& images,
                                     const std::vector<std::optional<GeoTags>>& tags,
                                     const std::vector<Detection>& detections,
                                     const CategoryMap& categories) {
  const int epsg = shared_epsg(images, tags);
  DetectionsGeojson out{.text = "{\n\"type\": \"FeatureCollection\",\n"};
  if (epsg != 0 && epsg != kWgs84) {
    out.text +=
        cat("\"crs\": { \"type\": \"name\", \"properties\": { \"name\": "
            "\"urn:ogc:def:crs:EPSG::",
            epsg, "\" } },\n");
  }
  out.text += "\"features\": [\n";
  bool is_first = true;
  for (const Detection& one : detections) {
    const auto place = static_cast<std::size_t>(one.image_id - 1);
    if (!tags[place]) continue;
    const int label = categories.label_of(one.category_id).value();
    out.text += cat(
        is_first ? "" : ",\n", "{ \"type\": \"Feature\", \"properties\": { \"image\": ",
        json_text(images[place].file_name), ", \"image_id\": ", json_text(images[place].file_name),
        ", \"type_id\": ", one.category_id, ", \"bounds_imcoords\": \"", corners_of(one.bbox), "\"",
        ", \"class\": ", json_text(categories.at(label).name),
        ", \"score\": ", rounded(one.score, kScoreDigits),
        " }, \"geometry\": { \"type\": \"Polygon\", \"coordinates\": [ [ ",
        ring_of(one.bbox, *tags[place]), " ] ] } }");
    is_first = false;
  }
  out.text += is_first ? "]\n}\n" : "\n]\n}\n";
  out.left_out_count = static_cast<std::size_t>(std::count(tags.begin(), tags.end(), std::nullopt));
  return out;
}

}  // namespace retina
