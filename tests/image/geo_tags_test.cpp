// Where GeoTIFFs lie. The numbers of each case are those of GDAL's gdalinfo for the same file.
#include "shared/image/geo_tags.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/image/jpeg.h"
#include "tests/support/images/geotiff.h"
#include "tests/support/images/images.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// UTM zone 33 north, in metres, and WGS 84 in degrees.
const std::vector<std::uint16_t> kUtm = {1024, 0, 1, 1,     1025, 0, 1, 1,
                                         3072, 0, 1, 32633, 3076, 0, 1, 9001};
const std::vector<std::uint16_t> kUtmPoint = {1024, 0, 1, 1, 1025, 0, 1, 2, 3072, 0, 1, 32633};
const std::vector<std::uint16_t> kDegrees = {1024, 0, 1, 2,    1025, 0, 1, 1,
                                             2048, 0, 1, 4326, 2054, 0, 1, 9102};

class GeoTagsTest : public testing::Test {
 protected:
  std::optional<GeoTags> read(const GeoLook& look) const {
    write_geotiff(folder_ / "image.tif", look);
    return read_geo_tags(folder_ / "image.tif");
  }
  TestFolder folder_{};
};

void expect_at(const std::optional<GeoTags>& tags, double column, double row, double x, double y) {
  ASSERT_TRUE(tags);
  const auto [got_x, got_y] = tags->at(column, row);
  EXPECT_NEAR(got_x, x, 1e-9 * std::abs(x));
  EXPECT_NEAR(got_y, y, 1e-9 * std::abs(y));
}

TEST_F(GeoTagsTest, ATiePointAndAScaleAreATransform) {
  const auto tags =
      read({.scale = {0.5, 0.25, 0}, .ties = {0, 0, 0, 400000, 5800000, 0}, .keys = kUtm});
  expect_at(tags, 0, 0, 400000, 5800000);
  expect_at(tags, 20, 10, 400010, 5799997.5);
  EXPECT_EQ(tags->epsg, 32633);
}

TEST_F(GeoTagsTest, ATiePointMayBeAnywhere) {
  expect_at(read({.scale = {2, 2, 0}, .ties = {10, 4, 0, 1000, 2000, 0}}), 0, 0, 980, 2008);
}

TEST_F(GeoTagsTest, PixelsThatArePointsHaveTheirCentresThere) {
  const auto tags =
      read({.scale = {0.5, 0.25, 0}, .ties = {0, 0, 0, 400000, 5800000, 0}, .keys = kUtmPoint});
  expect_at(tags, 0.5, 0.5, 400000, 5800000);
  expect_at(tags, 0, 0, 399999.75, 5800000.125);
  EXPECT_EQ(tags->epsg, 32633);
}

TEST_F(GeoTagsTest, AMatrixMayTurnTheImage) {
  const std::vector<double> matrix = {0.4, 0.3, 0, 1000, 0.3, -0.4, 0, 2000,
                                      0,   0,   0, 0,    0,   0,    0, 1};
  expect_at(read({.matrix = matrix, .keys = kUtm}), 20, 10, 1011, 2002);
  const auto point = read({.matrix = matrix, .keys = kUtmPoint});
  expect_at(point, 0.5, 0.5, 1000, 2000);
  expect_at(point, 0, 0, 999.65, 2000.05);
}

TEST_F(GeoTagsTest, DegreesHaveTheirOwnKey) {
  const auto tags =
      read({.scale = {1e-5, 1e-5, 0}, .ties = {0, 0, 0, 13.25, 52.5, 0}, .keys = kDegrees});
  EXPECT_EQ(tags->epsg, 4326);
  expect_at(tags, 20, 10, 13.2502, 52.4999);
}

TEST_F(GeoTagsTest, WhatIsNotKnownIsNotClaimed) {
  const GeoLook base{.scale = {1, 1, 0}, .ties = {0, 0, 0, 5, 7, 0}};
  EXPECT_EQ(read(base)->epsg, 0);
  GeoLook own = base;
  own.keys = {1024, 0, 1, 1, 3072, 0, 1, 32767};
  EXPECT_EQ(read(own)->epsg, 0);
  EXPECT_EQ(read(own)->keys, read(own)->keys);
  EXPECT_NE(read(own)->keys, read(base)->keys);
  own.keys = {1024, 0, 1, 1, 3072, 34736, 1, 32633};  // the value is elsewhere
  EXPECT_EQ(read(own)->epsg, 0);
}

TEST_F(GeoTagsTest, NothingWithoutAnAffineTransform) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({.keys = kUtm}));
  EXPECT_FALSE(read({.scale = {1, 1, 0}}));
  EXPECT_FALSE(read({.ties = {0, 0, 0, 1, 2, 0, 20, 10, 0, 3, 4, 0}})) << "control points";
  EXPECT_FALSE(read({.scale = {1, 0, 0}, .ties = {0, 0, 0, 1, 2, 0}}));
  EXPECT_FALSE(read({.scale = {1}, .ties = {0, 0, 0, 1, 2, 0}}));
  EXPECT_FALSE(read({.matrix = std::vector<double>(16)})) << "pixels without area";
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(read({.scale = {1, 1, 0}, .ties = {0, 0, 0, nan, 2, 0}}));
}

TEST_F(GeoTagsTest, OtherAndDamagedFilesHaveNone) {
  const auto read_bytes = [&](const std::string& bytes) {
    std::ofstream(folder_ / "file", std::ios::binary) << bytes;
    return read_geo_tags(folder_ / "file");
  };
  EXPECT_FALSE(read_bytes(""));
  EXPECT_FALSE(read_bytes(encode_jpeg(colourful(8, 8), 80)));
  EXPECT_FALSE(read_bytes(encode_tiff(colourful(8, 8))));
  write_geotiff(folder_ / "image.tif",
                {.scale = {1, 1, 0}, .ties = {0, 0, 0, 5, 7, 0}, .keys = kUtm});
  const std::string whole = read_file(folder_ / "image.tif");
  ASSERT_TRUE(read_bytes(whole));
  for (std::size_t size = 0; size < whole.size(); size += 5) read_bytes(whole.substr(0, size));
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
    read_bytes(damaged);  // sanitizers watch
  }
  EXPECT_THROW(read_geo_tags(folder_ / "none.tif"), Error);
}

}  // namespace
}  // namespace retina
