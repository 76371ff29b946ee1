#include "evaluate/detection_formats.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr int kShareDigits = 6;  // Ultralytics' precision
constexpr int kPixelDigits = 7;  // precision of an f32 coordinate in pixels

int label_of(const Detection& one, const CategoryMap& categories) {
  return categories.label_of(one.category_id).value();
}

// Returns `value` as printf's %g writes it with so many digits, in any locale.
std::string rounded(double value, int digits) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::general, digits);
  return {text.data(), end.ptr};
}

std::string csv_field(const std::string& name) {
  const std::string text = begins_formula(name) ? "'" + name : name;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

constexpr int kWgs84 = 4326;
constexpr int kCoordinateDigits = 12;  // a hundredth of a millimetre in web maps' metres

std::string json_text(const std::string& text) {
  return JsonWriter().value(text).text();
}

// Returns "x1,y1,x2,y2".
std::string corners_text(const std::array<double, 4>& box) {
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

std::string yolo_label_name(const std::string& image_name) {
  fs::path label;
  for (const fs::path& part : fs::path(image_name).relative_path()) {
    if (part != "." && part != "..") label /= part;
  }
  return label.replace_extension(".txt").string();
}

void check_yolo_label_names(const std::vector<std::string>& image_names) {
  constexpr std::size_t kLongestName = 251;  // 255 with .tmp at the end
  std::map<std::string, std::string> image_of;
  for (const std::string& name : image_names) {
    const std::string label = yolo_label_name(name);
    const auto [other, is_new] = image_of.emplace(label, name);
    const bool is_long = fs::path(label).filename().string().size() > kLongestName;
    if (is_new && !is_long) continue;
    throw Error(ErrorKind::kConfig,
                cat(escaped(name), ": --output-format yolo: its label file ",
                    is_long ? cat("has a name of more than ", kLongestName, " bytes")
                            : cat(escaped(label), " is also that of ", escaped(other->second))),
                "rename it, or give --output-format csv");
  }
}

std::string yolo_labels(const ImageInfo& image, std::span<const Detection> found,
                        const CategoryMap& categories) {
  std::string text;
  for (const Detection& one : found) {
    const auto& [left, top, width, height] = one.bbox;
    text += std::to_string(label_of(one, categories));
    for (const double number : {(left + width / 2) / image.width, (top + height / 2) / image.height,
                                width / image.width, height / image.height, one.score}) {
      text += ' ' + rounded(number, kShareDigits);
    }
    text += '\n';
  }
  return text;
}

std::string yolo_data(const CategoryMap& categories) {
  std::string text = "names:\n";
  for (int label = 0; label < categories.size(); ++label) {
    // A JSON string is also a YAML string.
    text += cat("  ", label, ": ", JsonWriter().value(categories.at(label).name).text(), "\n");
  }
  return text;
}

std::string detections_csv(const std::vector<ImageInfo>& images,
                           const std::vector<Detection>& detections,
                           const CategoryMap& categories) {
  std::string text = "file_name,width,height,xmin,ymin,xmax,ymax,label,score\n";
  for (const Detection& one : detections) {
    const ImageInfo& image = images[static_cast<std::size_t>(one.image_id - 1)];
    const auto& [left, top, width, height] = one.bbox;
    text += cat(csv_field(image.file_name), ',', image.width, ',', image.height);
    for (const double number : {left, top, left + width, top + height}) {
      text += ',' + rounded(number, kPixelDigits);
    }
    text += cat(',', csv_field(categories.at(label_of(one, categories)).name), ',',
                rounded(one.score, kShareDigits), '\n');
  }
  return text;
}

int shared_epsg(const std::vector<ImageInfo>& images,
                const std::vector<std::optional<GeoTags>>& tags) {
  const auto text_of = [](int epsg) {
    return epsg == 0 ? "one without an EPSG number" : cat("EPSG:", epsg);
  };
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (!tags[i]) continue;
    if (!first) first = i;
    const GeoTags &one = *tags[i], &other = *tags[*first];
    if (one.epsg == other.epsg && (one.epsg != 0 || one.keys == other.keys)) continue;
    throw Error(ErrorKind::kConfig,
                cat(escaped(images[i].file_name), ": its coordinate system is ", text_of(one.epsg),
                    ", that of ", escaped(images[*first].file_name), " is ", text_of(other.epsg)),
                "a GeoJSON file has one coordinate system: give the images of each by themselves, "
                "or write them again with one (gdalwarp -t_srs EPSG:NUMBER)");
  }
  return first ? tags[*first]->epsg : 0;
}

DetectionsGeojson detections_geojson(const std::vector<ImageInfo>& images,
                                     const std::vector<std::optional<GeoTags>>& tags,
                                     const std::vector<Detection>& detections,
                                     const CategoryMap& categories) {
  const int epsg = shared_epsg(images, tags);
  DetectionsGeojson out{.text = "{\n\"type\": \"FeatureCollection\",\n"};
  if (epsg != 0 && epsg != kWgs84) {
    out.text += cat(
        "\"crs\": { \"type\": \"name\", \"properties\": { \"name\": \"urn:ogc:def:crs:EPSG::", epsg,
        "\" } },\n");
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
        ", \"type_id\": ", one.category_id, ", \"bounds_imcoords\": \"", corners_text(one.bbox),
        "\"", ", \"class\": ", json_text(categories.at(label).name),
        ", \"score\": ", rounded(one.score, kShareDigits),
        " }, \"geometry\": { \"type\": \"Polygon\", \"coordinates\": [ [ ",
        ring_of(one.bbox, *tags[place]), " ] ] } }");
    is_first = false;
  }
  out.text += is_first ? "]\n}\n" : "\n]\n}\n";
  out.left_out_count = static_cast<std::size_t>(std::count(tags.begin(), tags.end(), std::nullopt));
  return out;
}

}  // namespace retina
