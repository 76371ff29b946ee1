// Annotations of aerial images: xView's GeoJSON and DOTA's labels, as their makers and users write
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "shared/base/cat.h"
#include "tests/preprocess/small_source.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Box = std::array<double, 4>;
using Told = std::tuple<std::string, std::string, Box>;  // image, class, box

std::vector<Told> told(const Instances& read) {
  std::map<std::int64_t, std::string> images, names;
  for (const ImageInfo& one : read.images) images[one.id] = one.file_name;
  for (const Category& one : read.categories) names[one.id] = one.name;
  std::vector<Told> all;
  for (const Annotation& one : read.annotations) {
    all.emplace_back(images.at(one.image_id), names.at(one.category_id), one.bbox);
  }
  return all;
}

std::vector<std::string> file_names(const Instances& read) {
  std::vector<std::string> names;
  for (const ImageInfo& image : read.images) names.push_back(image.file_name);
  return names;
}

// --- xView
// -----------------------------------------------------------------------------------------

// As the published file has them: other properties before and behind, the outline in degrees.
std::string feature(const std::string& bounds, const std::string& type_id,
                    const std::string& image) {
  return cat(R"({ "type": "Feature", "properties": { "bounds_imcoords": ")", bounds,
             R"(", "edited_by": "a \"b\" {[", "type_id": )", type_id, R"(, "image_id": ")", image,
             R"(", "feature_id": 374410 }, "geometry": { "type": "Polygon", "coordinates": )"
             R"([ [ [ -90.53, 14.56 ], [ -90.52, 14.56 ], [ -90.53, 14.56 ] ] ] } })");
}

struct SmallXview : SmallSource {
  explicit SmallXview(const std::string& features)
      : SmallSource(AnnotationFormat::kXview, "x.geojson") {
    write("x.geojson", cat("{\n\"type\": \"FeatureCollection\",\n\"crs\": { \"type\": \"name\", "
                           "\"properties\": { \"name\": \"urn:ogc:def:crs:OGC:1.3:CRS84\" } },\n"
                           "\"features\": [\n",
                           features, "\n]\n}\n"));
    write("images/100.tif", "");
  }
  void give_classes(const std::string& text) {
    write("classes.txt", text);
    source.classes = folder / "classes.txt";
  }
};

TEST(Xview, BoxesAreThoseOfTheProperties) {
  SmallXview set(cat(feature("10,20,30,50", "73", "2355.tif"), ",\n",
                     feature("-3,5,7,5", "18", "100.tif"), ",\n",
                     feature("1.5,2,3,4", "\"73\"", "100.tif")));
  set.give_classes("18:Small Car\n73:Building\n");
  const Instances read = set.read();
  EXPECT_THAT(file_names(read), ElementsAre("100.tif", "2355.tif"));
  EXPECT_THAT(told(read), ElementsAre(Told{"100.tif", "Small Car", {-3, 5, 10, 0}},
                                      Told{"100.tif", "Building", {1.5, 2, 1.5, 2}},
                                      Told{"2355.tif", "Building", {10, 20, 20, 30}}));
  EXPECT_EQ(read.categories[1].id, 73);
  EXPECT_THAT(set.log(), IsEmpty());
}

TEST(Xview, ClassesMayBeGivenAsTheOtherFormatsHaveThem) {
  SmallXview set(feature("1,2,3,4", "73", "100.tif"));
  set.give_classes("\"Building, \"\"large\"\"\",73\r\n");
  EXPECT_EQ(set.read().categories[0].name, "Building, \"large\"");
}

TEST(Xview, WhatTheListDoesNotNameIsLeftOutAndTold) {
  SmallXview set(cat(feature("1,2,3,4", "75", "100.tif"), ",", feature("1,2,3,4", "82", "100.tif"),
                     ",", feature("1,2,3,4", "75", "1395.tif"), ",",
                     feature("1,2,3,4", "11", "1395.tif"), ",", feature("", "11", "7.tif")));
  set.give_classes("11:Fixed-wing Aircraft\n");
  const Instances read = set.read();
  EXPECT_THAT(told(read), ElementsAre(Told{"1395.tif", "Fixed-wing Aircraft", {1, 2, 2, 2}}));
  EXPECT_THAT(file_names(read), ElementsAre("100.tif", "1395.tif", "7.tif"));
  EXPECT_THAT(set.log(), HasSubstr("x.geojson: boxes whose type_id is no class are left out "
                                   "(type_id 75: 2 boxes, type_id 82: 1 box)"));
  EXPECT_THAT(set.log(), HasSubstr("1 feature has empty bounds_imcoords and no box"));
}

TEST(Xview, AnImageIdWithoutAnEndingIsThatOfTheFileThatHasOne) {
  SmallXview set(cat(feature("1,2,3,4", "11", "100"), ",", feature("5,6,7,8", "11", "100.tif"), ",",
                     feature("1,2,3,4", "11", "7")));
  set.give_classes("11:Fixed-wing Aircraft\n");
  const Instances read = set.read();
  EXPECT_THAT(file_names(read), ElementsAre("100.tif", "7"));
  EXPECT_EQ(read.annotations.at(1).image_id, 1);
}

TEST(Xview, WithoutAListClassesAreNumbersButNotThoseThatAreNone) {
  const SmallXview set(
      cat(feature("1,2,3,4", "75", "100.tif"), ",", feature("1,2,3,4", "11", "100.tif")));
  EXPECT_THAT(told(set.read()), ElementsAre(Told{"100.tif", "11", {1, 2, 2, 2}}));
  EXPECT_THAT(set.log(), HasSubstr("give --classes xview_class_labels.txt"));
}

TEST(Xview, AFileOfManyPiecesIsReadAsOne) {
  std::string features;
  constexpr int kCount = 6000;  // of about 360 bytes
  for (int i = 0; i < kCount; ++i) {
    features += cat(i == 0 ? "" : ",\n", feature(cat(i, ",0,", i + 1, ",1"), "11", "100.tif"));
  }
  const Instances read = SmallXview(features).read();
  ASSERT_EQ(read.annotations.size(), std::size_t{kCount});
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(read.annotations[static_cast<std::size_t>(i)].bbox, (Box{double(i), 0, 1, 1}));
  }
  const SmallXview damaged(cat(features, ",\n", feature("1,2,3", "11", "100.tif")));
  EXPECT_EQ(damaged.refused(),
            "x.geojson: feature 6001: bounds_imcoords: got \"1,2,3\", want X1,Y1,X2,Y2");
}

TEST(Xview, DamageIsNamedWithItsFeature) {
  const auto refused = [](const std::string& features) { return SmallXview(features).refused(); };
  const std::string good = feature("1,2,3,4", "11", "100.tif");
  const std::string background =
      "{\"properties\": {\"image_id\": \"100.tif\", \"bounds_imcoords\": \"\"}}";
  EXPECT_EQ(SmallXview(cat(good, ",", background)).read().annotations.size(), 1U);
  for (const auto& [text, problem] :
       {std::pair{feature("1,2,x,4", "11", "100.tif"), "bounds_imcoords: got \"x\", want a number"},
        {feature("3,2,1,4", "11", "100.tif"), "bounds_imcoords: got \"3,2,1,4\", want X1 <= X2"},
        {feature("1,2,3,4", "1.5", "100.tif"), "type_id: got 1.5, want a whole number"},
        {feature("1,2,3,4", "null", "100.tif"), "properties: type_id: got null, want a number"},
        {std::string("{\"properties\": {\"image_id\": 5}}"), "image_id: got 5, want a string"},
        {feature("1,2,3,4", "11", "5.tif\\u0000x"), "image_id: got \"5.tif\\x00x\", want a"},
        {feature("1,2,3,4", "11", ""), "image_id: got \"\", want a file's name"},
        {std::string("{\"type\": \"Feature\"}"), "key \"properties\" is missing"},
        {std::string("{\"properties\": {\"class\": 3}}"), "key \"image_id\" is missing"},
        {std::string("[1]"), ", want an object"},
        {std::string("null"), "got null, want an object"}}) {
    EXPECT_THAT(refused(cat(good, ",\n", text)),
                testing::AllOf(testing::StartsWith("x.geojson: feature 2: "), HasSubstr(problem)));
  }
  EXPECT_THAT(refused(cat(good, ",\n{,}")),
              HasSubstr("x.geojson: not valid JSON at line 6, column 2, byte "));
  EXPECT_THAT(refused(good.substr(0, good.size() / 2)), HasSubstr("x.geojson: not valid JSON"));
  EXPECT_THAT(refused(""), HasSubstr("the data set is empty"));
  SmallSource other(AnnotationFormat::kXview, "x.geojson");
  other.write("x.geojson", "{\"images\": []}");
  EXPECT_EQ(other.refused(), "x.geojson: key \"features\" is missing");
  SmallXview classes(good);
  classes.give_classes("11:Aircraft\nBuilding\n");
  EXPECT_EQ(classes.refused(), "classes.txt: line 2: got \"Building\", want ID:CLASS or CLASS,ID");
  classes.give_classes("11:Aircraft\n11:Building\n");
  EXPECT_EQ(classes.refused(), "classes.txt: line 2: class 11 already appears on line 1");
}

// --- DOTA
// ------------------------------------------------------------------------------------------

using Labels = std::map<std::string, std::string>;

struct SmallDota : SmallSource {
  explicit SmallDota(const Labels& labels, const std::vector<std::string>& images = {"P0001.png"})
      : SmallSource(AnnotationFormat::kDota, "labelTxt") {
    for (const auto& [name, text] : labels) write("labelTxt/" + name, text);
    for (const std::string& name : images) write("images/" + name, "");
  }
};

TEST(Dota, BoxesAreTheHullsOfTheirCorners) {
  const SmallDota set(Labels{{"P0001.txt",
                              "imagesource:GoogleEarth\r\ngsd:0.146343590398\r\n"
                              "10.0 20.0 30.0 10.0 40.0 30.0 20.0 40.0 plane 0\r\n"
                              "1 1 2 1 2 2 1 2 small-vehicle 1 \r\n"},
                             {"P0002.txt", "5 5 9 5 9 9 5 9 plane\n"},
                             {"P0003.txt", "imagesource:\ngsd:null\n"},
                             {"P0004.txt", ""}});
  const Instances read = set.read();
  EXPECT_THAT(file_names(read), ElementsAre("P0001.png", "P0002.png", "P0003.png", "P0004.png"));
  EXPECT_THAT(told(read), ElementsAre(Told{"P0001.png", "plane", {10, 10, 30, 30}},
                                      Told{"P0001.png", "small-vehicle", {1, 1, 1, 1}},
                                      Told{"P0002.png", "plane", {5, 5, 4, 4}}));
  EXPECT_EQ(read.annotations[0].area, 900);
  EXPECT_THAT(set.log(), HasSubstr("labelTxt: 1 box is marked difficult and kept"));
}

TEST(Dota, ImagesWithoutALabelFileAreTold) {
  const std::string box = "1 1 2 1 2 2 1 2 ship 0\n";
  const SmallDota set(Labels{{"P1.txt", box}, {"P2.txt", ""}}, {"P1.png", "P2.png", "P3.png"});
  EXPECT_THAT(file_names(set.read()), ElementsAre("P1.png", "P2.png"));
  EXPECT_THAT(set.log(), HasSubstr("images: 1 of 3 images have no label file and are not packed "
                                   "(P3.png)"));
  EXPECT_THAT(SmallDota(Labels{{"P1.txt", box}}, {"P1.png"}).log(),
              Not(HasSubstr("no label file")));
}

TEST(Dota, ImagesMayHaveAnyEndingAndFoldersOfTheirOwn) {
  const SmallDota set(
      {{"train/P1.txt", "1 1 2 1 2 2 1 2 ship 0\n"}, {"train/P2.txt", "1 1 2 1 2 2 1 2 ship 0\n"}},
      {"train/P1.tif", "P2.jpg"});
  EXPECT_THAT(file_names(set.read()), ElementsAre("train/P1.tif", "P2.jpg"));
}

TEST(Dota, ClassesMayBeGiven) {
  SmallDota set(Labels{{"P0001.txt", "1 1 2 1 2 2 1 2 ship 0\n"}});
  set.write("classes.txt", "plane\nship\n");
  set.source.classes = set.folder / "classes.txt";
  EXPECT_EQ(set.read().annotations[0].category_id, 2);
  set.write("classes.txt", "plane\n");
  EXPECT_EQ(set.refused(),
            "labelTxt/P0001.txt: line 1: class \"ship\" is not in " + std::string("classes.txt"));
}

TEST(Dota, DamageIsNamedWithItsLine) {
  const auto refused = [](const std::string& text) {
    return SmallDota(Labels{{"P0001.txt", "gsd:1\n" + text}}).refused();
  };
  EXPECT_EQ(refused("1 1 2 1 2 2 1 ship 0\n"),
            "labelTxt/P0001.txt: line 2: y4: got \"ship\", want a number");
  EXPECT_EQ(refused("1 1 2 1 2 2 1\n"),
            "labelTxt/P0001.txt: line 2: got \"1 1 2 1 2 2 1\", want X1 Y1 X2 Y2 X3 Y3 X4 Y4 CLASS "
            "DIFFICULT");
  EXPECT_THAT(refused("0 0.1 0.1 0.2 0.1 0.2 0.2 0.1 0.2\n"),
              HasSubstr("DIFFICULT (YOLO's labels begin with the class)"));
  EXPECT_EQ(refused("1 1 2 1 nan 2 1 2 ship 0\n"),
            "labelTxt/P0001.txt: line 2: x3: got \"nan\", want a number");
  EXPECT_EQ(refused("1 1 2 1 2 2 1 2 ship hard\n"),
            "labelTxt/P0001.txt: line 2: difficult: got \"hard\", want a number");
  EXPECT_THAT(refused("1 1 2 1 2 2 1 2 sh\xFFp 0\n"), HasSubstr("line 2: is not UTF-8"));
  const std::string box = "1 1 2 1 2 2 1 2 ship 0\n";
  EXPECT_THAT(file_names(SmallDota({{"P1.txt", box}}, {"P1.jpg", "P1.png"}).read()),
              ElementsAre("P1.png"));
  EXPECT_EQ(SmallDota(Labels{{"a/P0001.txt", ""}, {"b/P0001.txt", ""}}).refused(),
            "labelTxt/b/P0001.txt: describes P0001.png, which a/P0001.txt already describes");
}

}  // namespace
}  // namespace retina
