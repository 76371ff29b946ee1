// What YOLO's labels mean, and what is told or refused because it would be misread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "tests/preprocess/small_source.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Files = std::map<std::string, std::string>;
using Box = std::array<double, 4>;

constexpr const char* kNames = "names: [owl, elk]\n";

// Labels of images of 40 x 20 pixels.
struct SmallYolo : SmallSource {
  explicit SmallYolo(const std::string& yaml, const Files& texts = {{"labels/a.txt", ""}},
                     const std::vector<std::string>& images = {"images/a.jpg"})
      : SmallSource(AnnotationFormat::kYolo, "data.yaml") {
    write("data.yaml", yaml);
    for (const auto& [name, text] : texts) write(name, text);
    for (const std::string& name : images) write(name, encode_jpeg(Image(40, 20), 50));
  }
  std::vector<Box> boxes() const {
    std::vector<Box> boxes;
    for (const Annotation& one : read().annotations) boxes.push_back(one.bbox);
    return boxes;
  }
};

TEST(Yolo, PoseLabelsAreBoxesWithKeyPointsBehindThem) {
  const std::string box = "0 0.5 0.5 0.5 0.5", points = " 0.9 0.9 0 0 0.5 0.5";
  EXPECT_THAT(
      SmallYolo(cat(kNames, "kpt_shape: [3, 2]\n"), {{"labels/a.txt", box + points}}).boxes(),
      ElementsAre(Box{10, 5, 20, 10}));
  // The third number of each is its visibility, 2 where it is seen.
  EXPECT_THAT(
      SmallYolo(cat(kNames, "kpt_shape: [2, 3]\n"), {{"labels/a.txt", box + " 0.9 0.9 2 0 0 0"}})
          .boxes(),
      ElementsAre(Box{10, 5, 20, 10}));
}

TEST(Yolo, RefusesPoseLabelsOfAnotherLengthThanKptShape) {
  EXPECT_EQ(SmallYolo(cat(kNames, "kpt_shape: [3, 2]\n"), {{"labels/a.txt", "0 .5 .5 .5 .5 .5 .5"}})
                .refused(),
            "labels/a.txt: line 1: has 7 numbers, want 11, CLASS CX CY WIDTH HEIGHT and the key "
            "points of \"kpt_shape\" in data.yaml");
  EXPECT_EQ(SmallYolo(cat(kNames, "kpt_shape: [3, 4]\n")).refused(),
            "data.yaml: line 2: kpt_shape: want [N, 2] or [N, 3], the number of key points and of "
            "numbers of each");
}

TEST(Yolo, TakesPredictionsAndTellsThatTheirConfidenceIsNotRead) {
  const SmallYolo set(kNames, {{"labels/a.txt", "0 .5 .5 .5 .5 .9\n1 .25 .25 .5 .5 .4\n"}});
  EXPECT_THAT(set.boxes(), ElementsAre(Box{10, 5, 20, 10}, Box{0, 0, 20, 10}));
  EXPECT_THAT(set.log(), HasSubstr("labels: 2 lines have a sixth number, such as a prediction's "
                                   "confidence, which is ignored"));
}

TEST(Yolo, OutlinesAreTheBoxesAroundThemAndNamesMayBeInADeclaredEncoding) {
  const SmallYolo set("# -*- coding: gbk -*-\nnames: {3: \xC6\xFB\xB3\xB5, 17: owl}\n",
                      {{"labels/a.txt", "17 0.25 0.5 0.75 0.5 0.5 0.875\n\n"}});
  EXPECT_THAT(set.boxes(), ElementsAre(Box{10, 10, 20, 7.5}));
  const Instances read = set.read();
  EXPECT_EQ(read.annotations.at(0).category_id, 17);
  EXPECT_EQ(read.categories.at(0).name, "\xE6\xB1\xBD\xE8\xBD\xA6");
}

TEST(Yolo, RefusesNcThatContradictsNames) {
  EXPECT_EQ(SmallYolo(cat("nc: 3\n", kNames)).refused(),
            "data.yaml: line 1: nc: got 3, but \"names\" has 2 classes");
  EXPECT_EQ(SmallYolo("nc: 2\nnames: [owl]\n").refused(),
            "data.yaml: line 1: nc: got 2, but \"names\" has 1 class");
  EXPECT_EQ(SmallYolo("nc: two\nnames: [owl]\n").refused(),
            "data.yaml: line 1: nc: got \"two\", want a number");
}

TEST(Yolo, NcCountsClassesOrPlacesUpToTheLast) {
  for (const char* count : {"2", "8"}) {
    EXPECT_EQ(SmallYolo(cat("nc: ", count, "\nnames: {3: owl, 7: elk}\n")).read().categories.size(),
              2U);
  }
}

TEST(Yolo, RefusesAKeyThatIsThereTwice) {
  EXPECT_EQ(SmallYolo(cat(kNames, "nc: 2\nnames: [elk, owl]\n")).refused(),
            "data.yaml: line 3: key \"names\" already appears on line 1");
  EXPECT_EQ(SmallYolo("names:\n  0: owl\n  1: elk\n  0: fox\n").refused(),
            "data.yaml: line 4: names: index 0 appears twice");
}

TEST(Yolo, RefusesAClassWithoutAName) {
  EXPECT_EQ(SmallYolo("names: [owl, ' ']\n").refused(),
            "data.yaml: line 1: names: class 1 has no name");
  EXPECT_EQ(SmallYolo("names: {0: owl, one: elk}\n").refused(),
            "data.yaml: line 1: index of names: got \"one\", want a number");
  EXPECT_EQ(SmallYolo("names: {0: owl, 1.5: elk}\n").refused(),
            "data.yaml: line 1: index of names: got 1.5, want a whole number, 0 or more");
}

TEST(Yolo, TakesClassesFromAListOfNames) {
  SmallYolo set("", {{"labels/a.txt", "1 .5 .5 .5 .5"}, {"classes.txt", "owl\r\nsea elk\r\n\r\n"}});
  set.source.path = set.folder / "classes.txt";
  const Instances read = set.read();
  ASSERT_EQ(read.categories.size(), 2U);
  EXPECT_EQ(read.categories[1].id, 1);
  EXPECT_EQ(read.categories[1].name, "sea elk");
  EXPECT_EQ(read.annotations.at(0).category_id, 1);
}

TEST(Yolo, RefusesAListOfNamesWithGapsOrRepeats) {
  SmallYolo set("");
  set.source.path = set.folder / "obj.names";
  set.write("obj.names", "owl\n\nelk\n");
  EXPECT_EQ(set.refused(), "obj.names: line 2: is empty, want a class name a line");
  set.write("obj.names", "owl\nelk\nowl\n");
  EXPECT_EQ(set.refused(), "obj.names: line 3: class \"owl\" already appears on line 1");
  set.write("obj.names", "\n");
  EXPECT_EQ(set.refused(), "obj.names: has no classes, want a class name a line");
}

TEST(Yolo, FindsLabelsBesideTheImagesAndInFoldersOfTheSplits) {
  const char* label = "0 .5 .5 .5 .5";
  const std::vector<Box> wanted{{10, 5, 20, 10}};
  EXPECT_EQ(SmallYolo(kNames, {{"images/a.txt", label}, {"images/classes.txt", "owl"}}).boxes(),
            wanted);  // darknet
  EXPECT_EQ(SmallYolo(kNames, {{"images/train/a.txt", label}}, {"images/train/a.jpg"}).boxes(),
            wanted);
  SmallYolo roboflow(kNames, {{"train/labels/a.txt", label}}, {"train/images/a.jpg"});
  roboflow.source.images = roboflow.folder / "train/images";
  EXPECT_EQ(roboflow.boxes(), wanted);
  roboflow.source.images = roboflow.folder / "train";
  EXPECT_EQ(roboflow.boxes(), wanted);
}

TEST(Yolo, RefusesLabelsThatFitNoImage) {
  EXPECT_EQ(SmallYolo(kNames, {{"labels/img-1.txt", ""}}).refused(),
            "labels: none of its 1 label files (img-1.txt) has the name of an image of images "
            "(a.jpg)");
  EXPECT_EQ(SmallYolo(kNames, {{"labels/README", ""}}).refused(), "labels: has no label files");
}

TEST(Yolo, NeedsTheFolderOfLabels) {
  EXPECT_EQ(SmallYolo(kNames, {}).refused(ErrorKind::kNoInput),
            "images: has no label files, and labels is not a folder");
  SmallYolo elsewhere(kNames, {}, {"photos/a.jpg"});
  elsewhere.source.images = elsewhere.folder / "photos";
  EXPECT_EQ(elsewhere.refused(ErrorKind::kNoInput), "photos: has no label files");
}

TEST(Yolo, TellsLabelFilesWithoutAnImageAndImagesWithoutLabels) {
  EXPECT_THAT(
      SmallYolo(kNames, {{"labels/a.txt", "0 .5 .5 .5 .5"}, {"labels/gone.txt", ""}},
                {"images/a.jpg", "images/b.jpg"})
          .log(),
      AllOf(HasSubstr("labels: 1 label file has no image in images (gone.txt)"),
            HasSubstr("images: 1 of 2 images have no label file; they are packed without boxes "
                      "(b.jpg)")));
}

TEST(Yolo, TellsThatSeveralPartsArePackedAsOne) {
  const SmallYolo set(kNames, {{"labels/train/a.txt", ""}},
                      {"images/train/a.jpg", "images/val/b.jpg"});
  EXPECT_THAT(set.log(),
              HasSubstr("images: images of several parts are packed as one set (train 1, "
                        "val 1); give --images the folder of one part"));
}

TEST(Yolo, TellsThatNoLabelFileHasABox) {
  EXPECT_THAT(SmallYolo(kNames).log(), HasSubstr("labels: no label file has a box"));
}

TEST(Yolo, LeavesOutLinesThatRepeatABox) {
  const SmallYolo set(kNames,
                      {{"labels/a.txt", "0 .5 .5 .5 .5\n1 .5 .5 .5 .5\n0 0.5 0.50 .5 .5\n"}});
  EXPECT_EQ(set.boxes().size(), 2U);
  EXPECT_THAT(set.log(), HasSubstr("labels: 1 line repeats a box of the same file and is ignored "
                                   "(a.txt: line 3)"));
}

TEST(Yolo, LinesMayEndInCarriageReturnsAlone) {
  const SmallYolo set(kNames,
                      {{"labels/a.txt", "0 .5 .5 .5 .5\r1 .25 .25 .5 .5\r0 .25 .25 .5 .5\r"}});
  EXPECT_EQ(set.boxes().size(), 3U);  // of 15 numbers, not the outline of one
}

// Behind the start marker, an Exif segment whose only entry is the orientation.
std::string turned(const std::string& jpeg) {
  std::string tiff("MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 26);
  const std::string body = std::string("Exif\0\0", 6) + tiff;
  const std::string head{'\xFF', '\xE1', '\0', static_cast<char>(body.size() + 2)};
  return jpeg.substr(0, 2) + head + body + jpeg.substr(2);
}

TEST(Yolo, TellsOfImagesWithBoxesThatTheirExifDataTurn) {
  SmallYolo set(kNames, {{"labels/a.txt", "0 .25 .25 .5 .5"}, {"labels/b.txt", ""}});
  set.write("images/a.jpg", turned(encode_jpeg(Image(40, 20), 50)));
  set.write("images/b.jpg", turned(encode_jpeg(Image(40, 20), 50)));
  EXPECT_THAT(set.log(), HasSubstr("images: 1 image with boxes is stored rotated (EXIF; a.jpg) and "
                                   "packed as stored"));
  EXPECT_THAT(set.log(), HasSubstr("give --exif apply"));
  set.source.by_rows = true;
  EXPECT_THAT(set.log(), HasSubstr("turn these images upright before they are packed with --tile"));
  EXPECT_THAT(set.log(), Not(HasSubstr("--exif")));
  set.source.by_rows = false;
  EXPECT_THAT(set.boxes(), ElementsAre(Box{0, 0, 20, 10}));
  set.source.exif = ExifPolicy::kApply;
  EXPECT_THAT(set.log(), Not(HasSubstr("EXIF")));
  EXPECT_THAT(set.boxes(), ElementsAre(Box{0, 0, 10, 20}));
}

}  // namespace
}  // namespace retina
