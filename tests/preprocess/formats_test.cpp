// The same small data set written in every format, then what is wrong in a file of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "preprocess/formats/annotation_source.h"
#include "preprocess/packer.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "tests/preprocess/small_classes.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const std::map<std::int64_t, std::string> kNames{{3, "cup, \"large\""}, {17, "owl"}};

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  write_file_atomically(path, text);
}

std::string csv_class(std::int64_t category_id) {
  return category_id == 3 ? R"("cup, ""large""")" : "owl";
}

// SmallCoco without what these formats do not have: crowds, and areas of their own.
struct SameSet {
  TestFolder folder;
  Instances coco;

  SameSet() : coco(SmallCoco{.folder = folder.path()}.write()) {
    for (Annotation& one : coco.annotations) {
      one.area = one.bbox[2] * one.bbox[3];
      one.iscrowd = false;
    }
  }

  std::vector<Annotation> boxes_of(const ImageInfo& image) const {
    std::vector<Annotation> boxes;
    for (const Annotation& one : coco.annotations) {
      if (one.image_id == image.id) boxes.push_back(one);
    }
    return boxes;
  }

  AnnotationSource voc() const {
    for (const ImageInfo& image : coco.images) {
      std::string text =
          cat("<annotation>\n <filename>", image.file_name, "</filename>\n <size><width>",
              image.width, "</width><height>", image.height, "</height></size>\n");
      for (const Annotation& one : boxes_of(image)) {
        const auto& b = one.bbox;
        text += cat(" <object><name>", one.category_id == 3 ? "cup, &quot;large&quot;" : "owl",
                    "</name><difficult>1</difficult><bndbox><xmin>", shortest(b[0]),
                    "</xmin><ymin>", shortest(b[1]), "</ymin><xmax>", shortest(b[0] + b[2]),
                    "</xmax><ymax>", shortest(b[1] + b[3]), "</ymax></bndbox></object>\n");
      }
      write(cat(folder.path(), "/Annotations/", image.id, ".xml"), text + "</annotation>\n");
    }
    return {.format = AnnotationFormat::kVoc,
            .path = folder / "Annotations",
            .images = folder / "images"};
  }

  AnnotationSource csv() const {
    std::string text;
    for (const ImageInfo& image : coco.images) {
      // Both ways to name a file.
      const std::string path =
          image.id % 2 == 0 ? image.file_name : cat(folder / "images/", image.file_name);
      if (boxes_of(image).empty()) text += path + ",,,,,\r\n";
      for (const Annotation& one : boxes_of(image)) {
        const auto& b = one.bbox;
        text += cat(path, ",", shortest(b[0]), ",", shortest(b[1]), ",", shortest(b[0] + b[2]), ",",
                    shortest(b[1] + b[3]), ",", csv_class(one.category_id), "\r\n");
      }
    }
    write(folder / "boxes.csv", text);
    write(folder / "classes.csv", cat(csv_class(3), ",3\nowl,17\n"));
    return {.format = AnnotationFormat::kCsv,
            .path = folder / "boxes.csv",
            .classes = folder / "classes.csv",
            .images = folder / "images"};
  }

  AnnotationSource yolo() const {
    write(folder / "data.yaml", "train: images\nnames:\n  3: 'cup, \"large\"'\n  17: owl\n");
    for (const ImageInfo& image : coco.images) {
      std::string text;
      for (const Annotation& one : boxes_of(image)) {
        const auto& b = one.bbox;
        text += cat(one.category_id, " ", shortest((b[0] + b[2] / 2) / image.width), " ",
                    shortest((b[1] + b[3] / 2) / image.height), " ", shortest(b[2] / image.width),
                    " ", shortest(b[3] / image.height), "\n");
      }
      if (text.empty()) continue;  // no file: no objects
      write(folder / "labels/" + fs::path(image.file_name).replace_extension(".txt").string(),
            text);
    }
    return {.format = AnnotationFormat::kYolo,
            .path = folder / "data.yaml",
            .images = folder / "images"};
  }
};

void expect_the_same(const Instances& read, const SameSet& set) {
  std::map<std::string, std::vector<Annotation>> boxes;  // by image
  std::map<std::int64_t, std::string> name_of_image, name;
  for (const ImageInfo& image : read.images) name_of_image[image.id] = image.file_name;
  for (const Category& one : read.categories) name[one.id] = one.name;
  for (const Annotation& one : read.annotations)
    boxes[name_of_image.at(one.image_id)].push_back(one);
  ASSERT_EQ(read.images.size(), set.coco.images.size());
  std::map<std::string, ImageInfo> sizes;
  for (const ImageInfo& image : read.images) sizes[image.file_name] = image;
  for (const ImageInfo& image : set.coco.images) {
    SCOPED_TRACE(image.file_name);
    EXPECT_EQ(sizes.at(image.file_name).width, image.width);
    EXPECT_EQ(sizes.at(image.file_name).height, image.height);
    const std::vector<Annotation> wanted = set.boxes_of(image);
    ASSERT_EQ(boxes[image.file_name].size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Annotation& got = boxes[image.file_name][i];
      for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(got.bbox[k], wanted[i].bbox[k], 1e-9);
      EXPECT_NEAR(got.area, wanted[i].area, 1e-9);
      EXPECT_EQ(name.at(got.category_id), kNames.at(wanted[i].category_id));
    }
  }
}

TEST(Formats, VocSaysWhatCocoSays) {
  const SameSet set;
  const Instances read = read_annotations(set.voc()).instances;
  expect_the_same(read, set);
  EXPECT_EQ(read.categories[0].id, 1);  // by name
}

TEST(Formats, VocTakesClassesFromAFile) {
  const SameSet set;
  AnnotationSource source = set.voc();
  source.classes = set.csv().classes;
  const Instances read = read_annotations(source).instances;
  expect_the_same(read, set);
  EXPECT_EQ(read.categories[1].id, 17);
}

TEST(Formats, VocWithoutSizesTakesThemFromTheImages) {
  const SameSet set;
  const AnnotationSource source = set.voc();
  for (const ImageInfo& image : set.coco.images) {
    const std::string path = cat(source.path, "/", image.id, ".xml");
    std::string text = read_file(path);
    const std::size_t begin = text.find("<size>"), end = text.find("</size>") + 7;
    write(path, text.erase(begin, end - begin));
  }
  expect_the_same(read_annotations(source).instances, set);
}

TEST(Formats, XmlAndYamlAreDecodedFromWhatTheyDeclare) {
  const SameSet set;
  const std::string car = "\xE6\xB1\xBD\xE8\xBD\xA6", in_gbk = "\xC6\xFB\xB3\xB5";
  write(
      set.folder / "xml/a.xml",
      "<?xml version=\"1.0\" encoding=\"gb2312\"?>\n<annotation><owner>\xC6\xFB</owner><filename>" +
          in_gbk + ".jpg</filename>\n<object><name>" + in_gbk +
          "</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"
          "</object></annotation>");
  const Instances voc = read_annotations({.format = AnnotationFormat::kVoc,
                                          .path = set.folder / "xml",
                                          .images = set.folder / "images"})
                            .instances;
  EXPECT_EQ(voc.categories.at(0).name, car);
  EXPECT_EQ(voc.images.at(0).file_name, car + ".jpg");
  const AnnotationSource yolo = set.yolo();
  write(yolo.path, "# -*- coding: gbk -*-\nnames: {3: " + in_gbk + ", 17: owl}\n");
  EXPECT_EQ(read_annotations(yolo).instances.categories.at(0).name, car);
}

TEST(Formats, WhatIsNotUsedOfAnXmlNeedNotBeUtf8) {
  const SameSet set;
  const AnnotationSource source = set.voc();
  const std::string path = cat(source.path, "/", set.coco.images.front().id, ".xml");
  write(path, read_file(path).insert(12, "<owner>Andr\xE9</owner>"));
  expect_the_same(read_annotations(source).instances, set);
}

// The message and the hint of what read_annotations() refuses; nothing when it accepts.
std::string refusal(const AnnotationSource& source) {
  try {
    read_annotations(source);
  } catch (const Error& error) {
    return cat(error.what(), "; hint: ", error.hint());
  }
  return "";
}

// A folder as VOC lays it out, and a list of some of its images.
struct VocList {
  SameSet set;
  AnnotationSource source = set.voc();

  VocList() { source.path = set.folder / "ImageSets/Main/train.txt"; }
  AnnotationSource with(const std::string& text) const {
    write(source.path, text);
    return source;
  }
  std::int64_t id(std::size_t place) const { return set.coco.images.at(place).id; }
  std::string line(std::size_t place) const { return cat(id(place), "\n"); }
};

TEST(Formats, AListOfVocTakesItsImagesAndTheClassesOfAll) {
  VocList list;
  const Instances all = read_annotations(list.set.voc()).instances;
  const Instances read =
      read_annotations(list.with(cat(list.id(1), "  \r\n\n", list.id(0)))).instances;
  ASSERT_EQ(read.images.size(), 2U);
  ASSERT_EQ(read.categories.size(), all.categories.size());
  for (std::size_t i = 0; i < all.categories.size(); ++i) {
    EXPECT_EQ(read.categories[i].id, all.categories[i].id);
    EXPECT_EQ(read.categories[i].name, all.categories[i].name);
  }
  // Every image is in one of two lists that share them out; the boxes go with their images.
  std::string rest;
  for (std::size_t i = 2; i < list.set.coco.images.size(); ++i) rest += list.line(i);
  const Instances others = read_annotations(list.with(rest)).instances;
  EXPECT_EQ(read.images.size() + others.images.size(), all.images.size());
  EXPECT_EQ(read.annotations.size() + others.annotations.size(), all.annotations.size());
  list.set.coco.images.resize(2);
  expect_the_same(read, list.set);
}

TEST(Formats, AListOfVocNamesItsBadLines) {
  const VocList list;
  const std::string &path = list.source.path, folder = list.set.folder / "Annotations";
  EXPECT_EQ(refusal(list.with(list.line(0) + "gone\n")),
            cat(path, ": line 2: gone.xml is not in ", folder, "; hint: "));
  EXPECT_EQ(refusal(list.with(list.line(0) + "\n" + list.line(0))),
            cat(path, ": line 3: ", list.id(0), " already appears on line 1; hint: "));
  EXPECT_EQ(
      refusal(list.with(cat(list.id(0), "  1\n", list.id(1), " -1\n"))),
      cat(path, ": line 1: got \"", list.id(0), "  1\", want a name alone; hint: this is the ",
          "list of one class; give --annotations ImageSets/Main/train.txt"));
  EXPECT_EQ(refusal(list.with("\n \n")), cat(path, ": lists no images; hint: "));
}

TEST(Formats, AListOfVocNeedsItsFolders) {
  VocList list;
  list.source.path = list.set.folder / "train.txt";
  EXPECT_THAT(
      refusal(list.with(list.line(0))),
      HasSubstr("Annotations, for its XML files, is not a folder; hint: a list belongs into DIR/"));
  list.source.path = list.set.folder / "ImageSets/Main/none.txt";
  EXPECT_THAT(refusal(list.source), HasSubstr(list.source.path));
}

TEST(Formats, AListOfVocIsPackedAndAnotherListIsAnotherSet) {
  const VocList list;
  PackOptions options = SmallCoco{.folder = list.set.folder.path()}.options("set");
  options.format = AnnotationFormat::kVoc;
  options.annotations = list.with(list.line(0) + list.line(1)).path;
  EXPECT_EQ(pack(options).manifest.counts.images, 2);
  EXPECT_TRUE(pack(options).was_finished);
  list.with(list.line(0));
  EXPECT_THROW(pack(options), Error);
}

TEST(Formats, CsvSaysWhatCocoSays) {
  const SameSet set;
  const Instances read = read_annotations(set.csv()).instances;
  expect_the_same(read, set);
  EXPECT_EQ(read.categories.back().id, 17);
}

TEST(Formats, YoloSaysWhatCocoSays) {
  const SameSet set;
  const Instances read = read_annotations(set.yolo()).instances;
  expect_the_same(read, set);
}

TEST(Formats, YoloTakesNamesAsAListAndOutlines) {
  const SameSet set;
  const AnnotationSource source = set.yolo();
  write(source.path, "names: [cup, owl]\n");
  fs::remove_all(set.folder / "labels");
  const ImageInfo& image = set.coco.images.front();
  write(set.folder / "labels/" + fs::path(image.file_name).replace_extension(".txt").string(),
        "1 0.25 0.5 0.75 0.5 0.5 0.875\n\n");
  const Instances read = read_annotations(source).instances;
  ASSERT_EQ(read.annotations.size(), 1U);
  const Annotation& one = read.annotations.front();
  EXPECT_EQ(one.category_id, 1);
  EXPECT_EQ(one.bbox, (std::array<double, 4>{.25 * image.width, .5 * image.height, .5 * image.width,
                                             .375 * image.height}));
}

// A file of `source` in which `from` is now `to`, and what is said then.
struct Damage {
  const char* name;
  AnnotationFormat format;
  const char *file, *from, *to, *told;
};

class DamagedFormats : public testing::TestWithParam<Damage> {};

TEST_P(DamagedFormats, AreNamedWithTheirLine) {
  const TestFolder folder;
  fs::create_directories(folder / "images");
  std::map<std::string, std::string> files{
      {"xml/a.xml",
       "<annotation>\n<filename>a.jpg</filename>\n<size><width>8</width><height>8</height></size>\n"
       "<object>\n<name>owl</name>\n<bndbox><xmin>1</xmin><ymin>1</ymin>\n<xmax>5</xmax>"
       "<ymax>6</ymax></bndbox>\n</object>\n</annotation>\n"},
      {"boxes.csv", "a.jpg,1,1,5,6,owl\nb.jpg,,,,,\n"},
      {"classes.csv", "owl,3\nelk,4\n"},
      {"data.yaml", "train: images\nnames: [owl, elk]\n"},
      {"images/a.jpg", ""},
      {"labels/a.txt", "0 .5 .5 .25 .25\n1 .5 .5 .25 .25\n"}};
  std::string& text = files.at(GetParam().file);
  const std::size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  for (const auto& [name, content] : files) write(folder / name, content);
  AnnotationSource source{.format = GetParam().format, .images = folder / "images"};
  const std::map<AnnotationFormat, std::string> paths{{AnnotationFormat::kVoc, "xml"},
                                                      {AnnotationFormat::kCsv, "boxes.csv"},
                                                      {AnnotationFormat::kYolo, "data.yaml"}};
  source.path = folder / paths.at(source.format);
  if (source.format == AnnotationFormat::kCsv) source.classes = folder / "classes.csv";
  try {
    read_annotations(source);
    FAIL() << "accepted " << GetParam().to;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(std::string(error.what()), cat(folder / GetParam().file, ": ", GetParam().told));
  }
}

constexpr auto kVoc = AnnotationFormat::kVoc;
constexpr auto kCsv = AnnotationFormat::kCsv;
constexpr auto kYolo = AnnotationFormat::kYolo;

INSTANTIATE_TEST_SUITE_P(
    Each, DamagedFormats,
    testing::Values(
        Damage{"VocIsNoXml", kVoc, "xml/a.xml", "</object>", "",
               "line 9: is not XML: Start-end tags mismatch"},
        Damage{"VocHasNoName", kVoc, "xml/a.xml", "<name>owl</name>", "",
               "line 4: <object> has no <name>"},
        Damage{"VocHasAnEmptyName", kVoc, "xml/a.xml", "owl", "", "line 5: <name> is empty"},
        Damage{"VocHasANameThatIsNotUtf8", kVoc, "xml/a.xml", "owl", "caf\xE9",
               "line 5: is not UTF-8 (got \"caf\\xe9\")"},
        Damage{"VocHasAFileNameThatIsNotUtf8", kVoc, "xml/a.xml", "a.jpg", "\xFF.jpg",
               "line 2: is not UTF-8 (got \"\\xff.jpg\")"},
        Damage{"VocHasNoNumber", kVoc, "xml/a.xml", "<xmax>5", "<xmax>5px",
               "line 7: xmax: got \"5px\", want a number"},
        Damage{"VocHasCornersTheOtherWayRound", kVoc, "xml/a.xml", "<ymax>6", "<ymax>0",
               "line 6: ymax is less than ymin"},
        Damage{"VocHasTwoBoxesInAnObject", kVoc, "xml/a.xml", "</bndbox>", "</bndbox>\n<bndbox/>",
               "line 8: <object> has two <bndbox>, want one"},
        Damage{"VocHasAnAngle", kVoc, "xml/a.xml", "<xmin>", "<angle>0.5</angle><xmin>",
               "line 6: <bndbox> has an <angle>, but rotated boxes cannot be trained on"},
        Damage{"VocHasARotation", kVoc, "xml/a.xml", "<bndbox>",
               "<attributes><attribute><name>rotation</name><value>30.0</value></attribute>"
               "</attributes><bndbox>",
               "line 6: <object> has a rotation, but rotated boxes cannot be trained on"},
        Damage{"VocHasTwoCorners", kVoc, "xml/a.xml", "<xmin>", "<xmin>9</xmin><xmin>",
               "line 6: <bndbox> has two <xmin>, want one"},
        Damage{"VocHasTwoFileNames", kVoc, "xml/a.xml", "<filename>",
               "<filename>z.jpg</filename><filename>",
               "line 2: <annotation> has two <filename>, want one"},
        Damage{"VocHasTwoAnnotations", kVoc, "xml/a.xml", "</annotation>",
               "</annotation><annotation/>",
               "line 9: has a second <annotation>, want a file an image"},
        Damage{"VocEndsEarly", kVoc, "xml/a.xml", "</annotation>", "</annot",
               "line 9: the file ends early"},
        Damage{"VocHasAnEntity", kVoc, "xml/a.xml", "<annotation>",
               "<!DOCTYPE a [<!ENTITY y \"owl\">]><annotation>",
               "line 1: declares an entity, which is not read; write its text where it is used"},
        Damage{"YoloHasATab", kYolo, "data.yaml", "names:", "names:\n\t- a\nmore:",
               "line 3: has a tab, which YAML does not indent with; want spaces"},
        Damage{"VocHasABadSize", kVoc, "xml/a.xml", "<width>8", "<width>8.5",
               "line 3: width: got 8.5, want a whole number, 0 or more"},
        Damage{"CsvHasTooFewFields", kCsv, "boxes.csv", "b.jpg,,,,,", "b.jpg,,",
               "line 2: has 3 fields, want 6: PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an image "
               "without boxes"},
        Damage{"CsvHasNoNumber", kCsv, "boxes.csv", ",5,", ",nan,",
               "line 1: x2: got \"nan\", want a number"},
        Damage{"CsvHasCornersTheOtherWayRound", kCsv, "boxes.csv", ",5,", ",0,",
               "line 1: x2 (0) is less than x1 (1)"},
        Damage{"CsvHasNoPath", kCsv, "boxes.csv", "b.jpg,", ",", "line 2: has no path"},
        Damage{"CsvHasANameThatIsNotUtf8", kCsv, "boxes.csv", "b.jpg", "\xE9.jpg",
               "line 2: is not UTF-8 (got \"\\xe9.jpg,,,,,\")"},
        Damage{"CsvHasAClassThatIsNotUtf8", kCsv, "classes.csv", "elk", "\xE9lan",
               "line 2: is not UTF-8 (got \"\\xe9lan,4\")"},
        Damage{"CsvHasAClassTwice", kCsv, "classes.csv", "elk", "owl",
               "line 2: class \"owl\" appears twice"},
        Damage{"CsvHasAnIdTwice", kCsv, "classes.csv", "4", "3",
               "line 2: id 3 already appears on line 1"},
        Damage{"CsvHasABadId", kCsv, "classes.csv", "4", "4.5",
               "line 2: id: got 4.5, want a whole number"},
        Damage{"YoloHasNoNames", kYolo, "data.yaml", "names", "name",
               "key \"names\" is missing, or no list of classes"},
        Damage{"YoloHasANameThatIsNotUtf8", kYolo, "data.yaml", "elk", "\xE9lan",
               "line 2: is not UTF-8 (got \"names: [owl, \\xe9lan]\")"},
        Damage{"YoloIsNoYaml", kYolo, "data.yaml", "[owl", "[owl: [",
               "line 3: is not valid YAML: end of sequence flow not found"},
        Damage{"YoloHasAnUnknownClass", kYolo, "labels/a.txt", "1 .5", "2 .5",
               "line 2: class: got 2, which data.yaml does not name"},
        Damage{"YoloHasTooFewNumbers", kYolo, "labels/a.txt", "1 .5 .5 .25 .25", "1 .5 .5",
               "line 2: has 3 numbers, want CLASS CX CY WIDTH HEIGHT, or CLASS and the points of "
               "an outline"},
        Damage{"YoloHasPixels", kYolo, "labels/a.txt", "0 .5", "0 320.00",
               "line 1: coordinate: got 320.00, want 0 to 1, a share of the image's side"},
        Damage{"YoloHasANegativeSize", kYolo, "labels/a.txt", ".25 .25", ".25 -.005",
               "line 1: height: got -.005, want 0 to 1"},
        Damage{"YoloHasAnIndexThatIsNone", kYolo, "data.yaml", "[owl, elk]", "{0: owl, one: elk}",
               "line 2: index of names: got \"one\", want a number"},
        Damage{"YoloHasAName", kYolo, "labels/a.txt", "0 .5", "owl .5",
               "line 1: class: got \"owl\", want a number"}),
    [](const auto& suite) { return suite.param.name; });

TEST(Formats, AClassThatIsNotInTheListIsNamed) {
  const SameSet set;
  AnnotationSource source = set.csv();
  write(source.classes, "owl,17\n");
  try {
    read_annotations(source);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(cat("class \"cup, \"large\"\" is not in ", source.classes)));
  }
}

TEST(Formats, AnAbsolutePathMustLeadIntoTheImageFolder) {
  const SameSet set;
  const AnnotationSource source = set.csv();
  write(source.path, "/elsewhere/b.jpg,,,,,\n");
  try {
    read_annotations(source);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              cat(source.path, ": line 1: /elsewhere/b.jpg is not below ", source.images,
                  ", the folder of --images"));
  }
}

TEST(Formats, TwoXmlFilesAboutOneImageAreNamed) {
  const SameSet set;
  const AnnotationSource source = set.voc();
  const std::string first = cat(set.coco.images.front().id, ".xml");
  write(source.path + "/twice.xml", read_file(source.path + "/" + first));
  try {
    read_annotations(source);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              cat(source.path, "/twice.xml: line 2: describes ", set.coco.images.front().file_name,
                  ", which ", first, " already describes"));
  }
}

TEST(Formats, ClassesOfAnyFormatThatDifferByCaseAreTold) {
  const SameSet set;
  const AnnotationSource yolo = set.yolo();
  write(yolo.path, "names: {3: OWL, 17: 'owl '}\n");
  testing::internal::CaptureStderr();
  read_annotations(yolo);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("(boxes: \"OWL\" "));
}

TEST(Formats, VocImagesWithoutNameAreReadAndPacked) {
  const SameSet set;
  const AnnotationSource source = set.voc();
  const ImageInfo& image = set.coco.images.front();
  const std::string xml = cat(source.path, "/", image.id, ".xml");
  std::string text = read_file(xml);
  const std::size_t begin = text.find("<filename>"), end = text.find("</size>");
  write(xml, text.erase(begin, end + 7 - begin));
  fs::rename(source.images + "/" + image.file_name, cat(source.images, "/", image.id, ".jpg"));
  PackOptions options = SmallCoco{.folder = set.folder.path()}.options("set");
  options.format = source.format;
  options.annotations = source.path;
  const PackResult result = pack(options);
  EXPECT_EQ(result.manifest.counts.quarantined, 0);
  EXPECT_EQ(result.manifest.counts.images, static_cast<std::int64_t>(set.coco.images.size()));
}

TEST(Formats, WhatSystemsLeaveAmongTheFilesIsPassedOver) {
  const SameSet set;
  const AnnotationSource yolo = set.yolo();
  write(set.folder / "images/._a.jpg", "");
  write(set.folder / "images/@eaDir/a.jpg/SYNOPHOTO_THUMB_M.jpg", "");
  expect_the_same(read_annotations(yolo).instances, set);
}

TEST(Formats, AnXmlFileOfSomethingElseIsNamed) {
  const SameSet set;
  const AnnotationSource source = set.voc();
  write(source.path + "/other.xml", "<?xml version=\"1.0\"?>\n<svg></svg>\n");
  try {
    read_annotations(source);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        cat(source.path,
            "/other.xml: line 1: has no <annotation>, but <svg>; want an XML file an image, as "
            "Pascal VOC has them"));
  }
}

TEST(Formats, ASetOfAnyIsPackedOnceAndItsImagesAreCheckedAsOfCoco) {
  const SameSet set;
  const AnnotationSource source = set.csv();
  std::string text = read_file(source.path);
  write(source.path, "gone.jpg,1,1,2,2,owl\n" + text);
  PackOptions options = SmallCoco{.folder = set.folder.path()}.options("set");
  options.format = source.format;
  options.annotations = source.path;
  options.classes = source.classes;
  const PackResult first = pack(options);
  EXPECT_EQ(first.manifest.counts.images, static_cast<std::int64_t>(set.coco.images.size()));
  EXPECT_EQ(first.manifest.counts.boxes, static_cast<std::int64_t>(set.coco.annotations.size()));
  EXPECT_EQ(first.manifest.counts.quarantined, 1);
  EXPECT_TRUE(pack(options).was_finished);
  write(source.path, text);
  try {
    pack(options);
    FAIL() << "packed other annotations into the same set";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_THAT(error.what(), HasSubstr("annotations"));
  }
}

}  // namespace
}  // namespace retina
