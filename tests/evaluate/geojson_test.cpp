// Detections on GeoTIFFs as GeoJSON: the text that GDAL's ogrinfo was seen to read.
#include "evaluate/detection_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "preprocess/formats/annotation_source.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

const CategoryMap kMappedClasses({{.id = 3, .name = "cat"}, {.id = 7, .name = "a \"big\" dog"}});
const std::vector<ImageInfo> kMappedImages{
    {.id = 1, .file_name = "a.tif", .width = 400, .height = 300},
    {.id = 2, .file_name = "photo.jpg", .width = 40, .height = 30},
    {.id = 3, .file_name = "sub/b \"c\".tif", .width = 1000, .height = 500}};
const std::vector<Detection> kMappedFound{
    {.image_id = 1, .category_id = 7, .bbox = {10, 20, 100, 60}, .score = 0.9},
    {.image_id = 2, .category_id = 3, .bbox = {1, 2, 3, 4}, .score = 0.5},
    {.image_id = 3, .category_id = 3, .bbox = {0, 0, 2, 1}, .score = 1.0 / 3}};

GeoTags north_up(int epsg) {
  return {.transform = {400000, 0.5, 0, 5800000, 0, -0.5}, .epsg = epsg};
}

TEST(Geojson, HasAPolygonOfTheFilesOwnCoordinatesForEachDetection) {
  const auto [text, left_out_count] =
      detections_geojson(kMappedImages, {north_up(32633), std::nullopt, north_up(32633)},
                         kMappedFound, kMappedClasses);
  EXPECT_EQ(left_out_count, 1U);
  EXPECT_EQ(text,
            "{\n\"type\": \"FeatureCollection\",\n"
            "\"crs\": { \"type\": \"name\", \"properties\": { \"name\": "
            "\"urn:ogc:def:crs:EPSG::32633\" } },\n"
            "\"features\": [\n"
            "{ \"type\": \"Feature\", \"properties\": { \"image\": \"a.tif\", \"image_id\": "
            "\"a.tif\", \"type_id\": 7, \"bounds_imcoords\": \"10,20,110,80\", \"class\": "
            "\"a \\\"big\\\" dog\", \"score\": 0.9 }, \"geometry\": { \"type\": \"Polygon\", "
            "\"coordinates\": [ [ [400005, 5799990], [400005, 5799960], [400055, 5799960], "
            "[400055, 5799990], [400005, 5799990] ] ] } },\n"
            "{ \"type\": \"Feature\", \"properties\": { \"image\": \"sub/b \\\"c\\\".tif\", "
            "\"image_id\": \"sub/b \\\"c\\\".tif\", \"type_id\": 3, \"bounds_imcoords\": "
            "\"0,0,2,1\", \"class\": \"cat\", \"score\": 0.333333 }, \"geometry\": { \"type\": "
            "\"Polygon\", "
            "\"coordinates\": [ [ [400000, 5800000], [400000, 5799999.5], [400001, 5799999.5], "
            "[400001, 5800000], [400000, 5800000] ] ] } }\n"
            "]\n}\n");
  JsonFile::parse(text, "text");
}

TEST(Geojson, IsReadByCocoPackAsXviewsLabels) {
  const TestFolder folder;
  AnnotationSource source{.format = AnnotationFormat::kXview,
                          .path = folder / "detections.geojson",
                          .images = folder.path()};
  auto found = kMappedFound;
  found.back().category_id = 75;  // one of those that are no classes where xView has them
  write_file_atomically(
      source.path, detections_geojson(
                       kMappedImages, {north_up(32633), std::nullopt, north_up(32633)}, found,
                       CategoryMap({{.id = 7, .name = "a \"big\" dog"}, {.id = 75, .name = "cat"}}))
                       .text);
  testing::internal::CaptureStderr();
  const Instances read = read_annotations(source).instances;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(read.images.size(), 2U);
  EXPECT_EQ(read.images[1].file_name, kMappedImages[2].file_name);
  ASSERT_EQ(read.annotations.size(), 2U);
  EXPECT_EQ(read.annotations[0].bbox, kMappedFound[0].bbox);
  EXPECT_EQ(read.annotations[1].bbox, kMappedFound[2].bbox);
  ASSERT_EQ(read.categories.size(), 2U);
  EXPECT_EQ(read.categories[0].id, 7);
  EXPECT_EQ(read.categories[0].name, "a \"big\" dog");
  EXPECT_EQ(read.categories[1].name, "cat");
}

TEST(Geojson, NamesNoSystemThatIsTheFormatsOwnOrUnknown) {
  for (const int epsg : {0, 4326}) {
    const auto made = detections_geojson(
        kMappedImages, {north_up(epsg), std::nullopt, std::nullopt}, kMappedFound, kMappedClasses);
    EXPECT_THAT(made.text, Not(HasSubstr("crs"))) << epsg;
    EXPECT_EQ(made.left_out_count, 2U);
  }
}

TEST(Geojson, RingsRunAnticlockwiseOfMirroredImagesToo) {
  const GeoTags turned{.transform = {1000, 0.4, 0.3, 2000, 0.3, -0.4}};
  const GeoTags mirrored{.transform = {1000, 0.5, 0, 2000, 0, 0.5}};
  for (const GeoTags& tags : {north_up(0), turned, mirrored}) {
    const auto made =
        detections_geojson({kMappedImages[0]}, {tags}, {kMappedFound[0]}, kMappedClasses);
    const JsonFile file = JsonFile::parse(made.text, "text");
    const JsonView ring = file.root()
                              .at("features")
                              .at(std::size_t{0})
                              .at("geometry")
                              .at("coordinates")
                              .at(std::size_t{0});
    ASSERT_EQ(ring.size(), 5U);
    double area = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const JsonView a = ring.at(i), b = ring.at(i + 1);
      area += (a.at(std::size_t{0}).as_double() * b.at(std::size_t{1}).as_double() -
               b.at(std::size_t{0}).as_double() * a.at(std::size_t{1}).as_double()) /
              2;
    }
    EXPECT_NEAR(area, 100 * 60 * 0.25, 1e-3);
  }
}

TEST(Geojson, TwoCoordinateSystemsAreRefused) {
  EXPECT_EQ(
      refusal_of(ErrorKind::kConfig,
                 [] {
                   shared_epsg(kMappedImages, {north_up(32633), std::nullopt, north_up(32634)});
                 }),
      "sub/b \"c\".tif: its coordinate system is EPSG:32634, that of a.tif is EPSG:32633");
  // Systems without a number are one where the files describe them alike.
  GeoTags own = north_up(0), other = north_up(0);
  own.keys = 1;
  EXPECT_EQ(shared_epsg(kMappedImages, {own, std::nullopt, own}), 0);
  other.keys = 2;
  EXPECT_THAT(refusal_of(ErrorKind::kConfig,
                         [&] {
                           shared_epsg(kMappedImages, {own, std::nullopt, other});
                         }),
              testing::HasSubstr("one without an EPSG number"));
  EXPECT_EQ(shared_epsg(kMappedImages, {std::nullopt, std::nullopt, north_up(32634)}), 32634);
  EXPECT_EQ(shared_epsg(kMappedImages, {std::nullopt, std::nullopt, std::nullopt}), 0);
}

}  // namespace
}  // namespace retina
