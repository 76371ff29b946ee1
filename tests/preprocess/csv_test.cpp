// CSV as people have it: what its columns mean, and what is told or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "preprocess/packer.h"
#include "shared/image/jpeg.h"
#include "tests/preprocess/small_coco.h"
#include "tests/preprocess/small_source.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Boxes of a.jpg and b.jpg, of 40 x 20 pixels.
struct SmallCsv : SmallSource {
  explicit SmallCsv(const std::string& text, const std::string& classes = "")
      : SmallSource(AnnotationFormat::kCsv, "boxes.csv") {
    write("boxes.csv", text);
    for (const char* name : {"images/a.jpg", "images/b.jpg"}) {
      write(name, encode_jpeg(Image(40, 20), 50));
    }
    if (classes.empty()) return;
    source.classes = folder / "classes.csv";
    write("classes.csv", classes);
  }
  // "a.jpg: owl 1 2 3 4" of each box, "b.jpg:" of an image without any.
  std::vector<std::string> boxes() const {
    const Instances instances = read();
    std::map<std::int64_t, std::string> name, name_of_image;
    for (const Category& one : instances.categories) name[one.id] = one.name;
    std::vector<std::string> out;
    for (const ImageInfo& image : instances.images) {
      const std::size_t before = out.size();
      for (const Annotation& one : instances.annotations) {
        if (one.image_id != image.id) continue;
        std::string text = cat(image.file_name, ": ", name[one.category_id]);
        for (const double number : one.bbox) text += cat(" ", shortest(number));
        out.push_back(text + (one.iscrowd ? " crowd" : ""));
      }
      if (out.size() == before) out.push_back(image.file_name + ":");
    }
    return out;
  }
};

TEST(Csv, ReadsTheHeadersOfOtherTools) {
  for (const char* text : {
           // DeepForest, and its row for an image without boxes; the same with pandas' row numbers.
           "image_path,xmin,ymin,xmax,ymax,label\na.jpg,1,2,5,10,elk\na.jpg,3,4,8,10,owl\n"
           "b.jpg,0,0,0,0,elk\n",
           ",image_path,xmin,ymin,xmax,ymax,label,score\r\n0,a.jpg,1,2,5,10,elk,.5\r\n"
           "1,a.jpg,3.0,4.0,8.0,10.0,owl,\r\n2,b.jpg,,,,,,\r\n",
           // TensorFlow and Roboflow.
           "filename,width,height,class,xmin,ymin,xmax,ymax\na.jpg,40,20,elk,1,2,5,10\n"
           "a.jpg,40,20,owl,3,4,8,10\nb.jpg,40,20,,,,,\n",
           // VinBigData: a class for nothing.
           "image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max\na,elk,0,R1,1,2,5,10\n"
           "a,owl,3,R2,3,4,8,10\nb,No finding,14,R1,,,,\n",
           // makesense.ai; a separator of its own.
           "label_name;bbox_x;bbox_y;bbox_width;bbox_height;image_name;image_width;image_height\n"
           "elk;1;2;4;8;a.jpg;40;20\nowl;3;4;5;6;a.jpg;40;20\nelk;0;0;0;0;b.jpg;40;20\n",
           "\xEF\xBB\xBFXMin\tYMin\tW\tH\tClass\tImage\n1\t2\t4\t8\telk\ta.jpg\n"
           "3\t4\t5\t6\towl\ta.jpg\n\t\t\t\t\tb.jpg\n",
           "image,x_center,y_center,width,height,class\na.jpg,3,6,4,8,elk\na.jpg,5.5,7,5,6,owl\n"
           "b.jpg,,,,,\n",
       }) {
    EXPECT_THAT(SmallCsv(text).boxes(),
                ElementsAre("a.jpg: elk 1 2 4 8", "a.jpg: owl 3 4 5 6", "b.jpg:"))
        << text;
  }
}

TEST(Csv, ReadsSharesOfTheSides) {
  const std::vector<std::string> wanted{"a.jpg: elk 10 5 20 10", "b.jpg: owl 0 0 40 20"};
  // Open Images: groups are crowds.
  EXPECT_EQ(SmallCsv("ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,"
                     "IsTruncated,IsGroupOf,IsDepiction,IsInside\n"
                     "a,xclick,/m/1,1,0.25,0.75,0.25,0.75,0,0,0,0,0\n"
                     "b,xclick,/m/2,1,0,1,0,1,0,0,1,0,0\n",
                     "/m/1,elk\n/m/2,owl\n")
                .boxes(),
            (std::vector<std::string>{"a.jpg: elk 10 5 20 10", "b.jpg: owl 0 0 40 20 crowd"}));
  // By their values alone.
  const SmallCsv plain(
      "filename,xmin,ymin,xmax,ymax,class\na.jpg,.25,.25,.75,.75,elk\n"
      "b.jpg,0,0,1,1,owl\n");
  EXPECT_EQ(plain.boxes(), wanted);
}

TEST(Csv, RefusesSharesAmongPixels) {
  EXPECT_THAT(
      SmallCsv("ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\na,elk,3,9,4,9,0\n").refused(),
      HasSubstr("the box is in pixels, but this layout uses normalised coordinates"));
  EXPECT_EQ(SmallCsv("a.jpg,1,2,5,10,elk\na.jpg,3,4,8,10,elk\nb.jpg,.1,.1,.5,.5,elk\n").refused(),
            "boxes.csv: line 3: the box is normalised (0 to 1), as on 1 of 3 lines; the others are "
            "in pixels; use one unit throughout");
  EXPECT_THAT(SmallCsv("a.jpg,0,0,1,1,elk\nb.jpg,3,4,8,10,elk\n").boxes(),
              ElementsAre("a.jpg: elk 0 0 1 1", "b.jpg: elk 3 4 5 6"));
}

TEST(Csv, ReadsABoxInOneColumn) {
  const SmallCsv wheat(
      "image_id,width,height,bbox,source\na,40,20,\"[1.0, 2.0, 4.0, 8.0]\",x\n"
      "b,40,20,,x\n");
  EXPECT_THAT(wheat.boxes(), ElementsAre("a.jpg: object 1 2 4 8", "b.jpg:"));
  EXPECT_THAT(wheat.log(),
              HasSubstr("no column names a class: all boxes get the class \"object\""));
  EXPECT_THAT(SmallCsv("image_id,bbox\na,\"[1, 2, 4, 8]\"\n", "wheat\n").boxes(),
              ElementsAre("a.jpg: wheat 1 2 4 8"));
  EXPECT_THAT(SmallCsv("image_id,bbox\na,\"[1, 2, 4, 8]\"\n", "wheat\nrye\n").refused(),
              HasSubstr("no column names a class, and classes.csv has 2 (want one)"));
  EXPECT_EQ(SmallCsv("image_id,bbox\na,\"[1, 2, 4]\"\n").refused(),
            "boxes.csv: line 2: bbox: got 3 numbers, want [x, y, width, height]");
}

TEST(Csv, ClassesAreThoseOfTheLinesOrOfAList) {
  const char* text = "a.jpg,1,2,5,10,owl\nb.jpg,3,4,8,10,elk\n";
  const Instances derived = SmallCsv(text).read();
  ASSERT_EQ(derived.categories.size(), 2U);
  EXPECT_EQ(derived.categories[0].name, "elk");
  EXPECT_EQ(derived.categories[0].id, 1);
  for (const char* classes : {"owl\nelk\n", "class,id\nowl,1\nelk,2\n", "owl,1\nelk,2\n"}) {
    const Instances listed = SmallCsv(text, classes).read();
    ASSERT_EQ(listed.categories.size(), 2U);
    EXPECT_EQ(listed.annotations.at(0).category_id, 1) << "owl, of a.jpg";
  }
  EXPECT_EQ(SmallCsv(text, "owl\n").refused(),
            "boxes.csv: line 2: class \"elk\" is not in classes.csv");
  EXPECT_EQ(SmallCsv("a.jpg,1,2,5,10,\n").refused(),
            "boxes.csv: line 1: has a box without a class");
}

TEST(Csv, AnImageWithBoxesKeepsThemBesideARowWithoutAny) {
  EXPECT_THAT(SmallCsv("a.jpg,0,0,0,0,\na.jpg,1,2,5,10,elk\nb.jpg,0,0,0,0,0\n").boxes(),
              ElementsAre("a.jpg: elk 1 2 4 8", "b.jpg:"));
}

TEST(Csv, TellsWhatItDoesNotRead) {
  const std::string log =
      SmallCsv(
          "filename,xmin,ymin,xmax,ymax,class,pose,split\na.jpg,1,2,5,10,elk,left,train\n"
          "b.jpg,1,2,5,10,elk,left,valid\n")
          .log();
  EXPECT_THAT(log, HasSubstr("boxes.csv: line 1 is the header, columns that are not read: pose"));
  EXPECT_THAT(log, HasSubstr("lines of all parts are packed as one set (split: train 1, valid 1)"));
  EXPECT_THAT(SmallCsv("a.jpg,1,2,5,10,elk\n").log(), IsEmpty());
}

TEST(Csv, RefusesRotatedBoxes) {
  const std::string head = "filename,xmin,ymin,xmax,ymax,class,angle\n";
  EXPECT_EQ(SmallCsv(head + "a.jpg,1,2,5,10,elk,30\n").refused(),
            "boxes.csv: line 2: angle: got 30, but rotated boxes cannot be trained on");
  EXPECT_THAT(SmallCsv(head + "a.jpg,1,2,5,10,elk,0.0\n").boxes(),
              ElementsAre("a.jpg: elk 1 2 4 8"));
}

TEST(Csv, AClassesNameGoesBeforeItsNumber) {
  EXPECT_THAT(SmallCsv("image,xmin,ymin,xmax,ymax,confidence,class,name\n"
                       "a.jpg,1,2,5,10,0.9,16,dog\n")
                  .boxes(),
              ElementsAre("a.jpg: dog 1 2 4 8"));
}

TEST(Csv, RefusesHeadersThatLackAColumn) {
  EXPECT_THAT(SmallCsv("xmin,ymin,xmax,ymax,class\n").refused(),
              AllOf(HasSubstr("line 1: no column for the image (want filename"),
                    HasSubstr("got \"xmin,ymin,xmax,ymax,class\"")));
  EXPECT_THAT(SmallCsv("filename,xmin,ymin,class\n").refused(),
              HasSubstr("line 1: no column for the box (want xmin,ymin,xmax,ymax or"));
  EXPECT_THAT(SmallCsv("filename,xmin,ymin,xmax,ymax,class,class\n").refused(),
              HasSubstr("line 1: column \"class\" appears twice"));
  EXPECT_THAT(SmallCsv("filename,x1,y1,x2,y2,x3,y3,x4,y4,class\n").refused(),
              HasSubstr("line 1: boxes by four corners are not read"));
  EXPECT_THAT(SmallCsv("a.jpg,1,2,5\n").refused(), HasSubstr("line 1: has 4 fields, want PATH,"));
  EXPECT_THAT(SmallCsv("\n").refused(), HasSubstr("is empty, want PATH,"));
}

TEST(Csv, RefusesLinesThatDoNotFit) {
  const std::string head = "filename,xmin,ymin,xmax,ymax,class\n";
  EXPECT_EQ(SmallCsv(head + "a.jpg,1,2,5\n").refused(),
            "boxes.csv: line 2: has 4 fields, want 6 as the header has");
  EXPECT_EQ(SmallCsv(head + "a.jpg,1,2,5,10,elk,7\n").refused(),
            "boxes.csv: line 2: has 7 fields, want 6 as the header has");
  EXPECT_THAT(SmallCsv(head + "a.jpg,1,2,5,10,elk,,\n").boxes(), ElementsAre("a.jpg: elk 1 2 4 8"));
  EXPECT_EQ(SmallCsv(head + "a.jpg,1,2,0,10,elk\n").refused(),
            "boxes.csv: line 2: xmax (0) is less than xmin (1)");
  EXPECT_EQ(SmallCsv("image,x,y,w,h,class\na.jpg,1,2,-3,4,elk\n").refused(),
            "boxes.csv: line 2: the box is -3 x 4, want sides of 0 or more");
  EXPECT_EQ(SmallCsv("image,width,height,xmin,ymin,xmax,ymax,class\na.jpg,40,20,1,2,3,4,elk\n"
                     "a.jpg,20,40,1,2,3,4,elk\n")
                .refused(),
            "boxes.csv: line 3: the image is 20x40, but 40x20 on an earlier line");
  EXPECT_THAT(SmallCsv("TRAIN,a.jpg,elk,.1,.2,,,,,,\n").refused(), HasSubstr("has 11 fields"));
}

TEST(Csv, StatedSizesAreKeptAndZerosAreRead) {
  const char* head = "filename,width,height,class,xmin,ymin,xmax,ymax\n";
  EXPECT_EQ(SmallCsv(cat(head, "a.jpg,41,21,elk,1,2,5,10\n")).read().images[0].width, 41);
  EXPECT_EQ(SmallCsv(cat(head, "a.jpg,0,0,elk,1,2,5,10\n")).read().images[0].width, 40);
}

TEST(Csv, AnAbsolutePathMustLeadIntoTheImageFolder) {
  const SmallCsv set("/elsewhere/b.jpg,,,,,\n");
  EXPECT_EQ(set.refused(),
            "boxes.csv: line 1: /elsewhere/b.jpg is not below images, the folder of --images");
  set.write("boxes.csv", set.folder / "images/a.jpg" + ",1,2,5,10,elk\n");
  EXPECT_THAT(set.boxes(), ElementsAre("a.jpg: elk 1 2 4 8"));
}

TEST(Csv, ASetIsPackedOnceAndItsImagesAreCheckedAsOfCoco) {
  const std::string text = "a.jpg,1,2,5,10,\"elk, \"\"old\"\"\"\nb.jpg,3,4,8,10,owl\n";
  const SmallCsv set(text + "gone.jpg,1,1,2,2,owl\n");
  const PackOptions options{.format = AnnotationFormat::kCsv,
                            .annotations = set.source.path,
                            .images = set.source.images,
                            .output = set.folder / "set"};
  const Manifest manifest = pack(options).manifest;
  EXPECT_EQ(manifest.counts.images, 2);
  EXPECT_EQ(manifest.counts.quarantined, 1);
  EXPECT_EQ(manifest.categories.at(0).name, "elk, \"old\"");
  EXPECT_TRUE(pack(options).was_finished);
  set.write("boxes.csv", text);
  EXPECT_THAT(pack_refusal(options, ErrorKind::kConfig), HasSubstr("annotations"));
}

}  // namespace
}  // namespace retina
