// CSV as people have it: what its columns mean, and what is told or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "tests/preprocess/small_source.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

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

TEST(Csv, QuotedNamesMayGoOnOverLines) {
  const std::string header = "image_path,xmin,ymin,xmax,ymax,label\n";
  EXPECT_EQ(SmallCsv(header + "a.jpg,1,2,5,10,\"snowy\nowl\"\na.jpg,3,4,8,10,\"elk\r\n, old\"\r\n")
                .boxes(),
            (std::vector<std::string>{"a.jpg: snowy owl 1 2 4 8", "a.jpg: elk , old 3 4 5 6"}));
  EXPECT_EQ(
      SmallCsv("label,image_path,xmin,ymin,xmax,ymax\n\"snowy\n\nowl\",a.jpg,1,2,5,10\n").boxes(),
      (std::vector<std::string>{"a.jpg: snowy owl 1 2 4 8"}));
  // Quotes that nobody closed, in the middle of a name and before one.
  for (const char* const name : {"5\" pipe", "\"pipe"}) {
    EXPECT_EQ(SmallCsv(header + "a.jpg,1,2,5,10," + name + "\na.jpg,3,4,8,10,elk\n").boxes().size(),
              2U)
        << name;
  }
}

TEST(Csv, EchoesNumbersAsTheFileHasThem) {
  const std::string header = "image_path,xmin,ymin,xmax,ymax,label\n";
  EXPECT_THAT(SmallCsv(header + "a.jpg,1.10,2,0.500,10,elk\n").refused(),
              HasSubstr("xmax (0.500) is less than xmin (1.10)"));
}

TEST(Csv, ReadsTheHeadersOfOtherTools) {
  const std::vector<std::string> wanted{"a.jpg: elk 1 2 4 8", "a.jpg: owl 3 4 5 6", "b.jpg:"};
  // DeepForest, and its row for an image without boxes; the same with pandas' row numbers.
  EXPECT_EQ(SmallCsv("image_path,xmin,ymin,xmax,ymax,label\na.jpg,1,2,5,10,elk\n"
                     "a.jpg,3,4,8,10,owl\nb.jpg,0,0,0,0,elk\n")
                .boxes(),
            wanted);
  EXPECT_EQ(SmallCsv(",image_path,xmin,ymin,xmax,ymax,label,score\r\n0,a.jpg,1,2,5,10,elk,.5\r\n"
                     "1,a.jpg,3.0,4.0,8.0,10.0,owl,\r\n2,b.jpg,,,,,,\r\n")
                .boxes(),
            wanted);
  // TensorFlow and Roboflow.
  EXPECT_EQ(SmallCsv("filename,width,height,class,xmin,ymin,xmax,ymax\n"
                     "a.jpg,40,20,elk,1,2,5,10\na.jpg,40,20,owl,3,4,8,10\nb.jpg,40,20,,,,,\n")
                .boxes(),
            wanted);
  // VinBigData: a class for nothing.
  EXPECT_EQ(SmallCsv("image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max\n"
                     "a,elk,0,R1,1,2,5,10\na,owl,3,R2,3,4,8,10\nb,No finding,14,R1,,,,\n")
                .boxes(),
            wanted);
  // makesense.ai; a separator of its own.
  EXPECT_EQ(SmallCsv("label_name;bbox_x;bbox_y;bbox_width;bbox_height;image_name;image_width;"
                     "image_height\nelk;1;2;4;8;a.jpg;40;20\nowl;3;4;5;6;a.jpg;40;20\n"
                     "elk;0;0;0;0;b.jpg;40;20\n")
                .boxes(),
            wanted);
  EXPECT_EQ(SmallCsv("\xEF\xBB\xBFXMin\tYMin\tW\tH\tClass\tImage\n1\t2\t4\t8\telk\ta.jpg\n"
                     "3\t4\t5\t6\towl\ta.jpg\n\t\t\t\t\tb.jpg\n")
                .boxes(),
            wanted);
  EXPECT_EQ(SmallCsv("image,x_center,y_center,width,height,class\na.jpg,3,6,4,8,elk\n"
                     "a.jpg,5.5,7,5,6,owl\nb.jpg,,,,,\n")
                .boxes(),
            wanted);
}

TEST(Csv, ReadsSharesOfTheSides) {
  const std::vector<std::string> wanted{"a.jpg: elk 10 5 20 10", "b.jpg: owl 0 0 40 20"};
  // Google's AutoML: two vertices or four, with and without the part.
  EXPECT_EQ(SmallCsv("TRAIN,gs://bucket/set/a.jpg,elk,0.25,0.25,,,0.75,0.75,,\n"
                     "TRAIN,gs://bucket/set/b.jpg,owl,0,0,1,0,1,1,0,1\n")
                .boxes(),
            wanted);
  EXPECT_EQ(SmallCsv("gs://bucket/a.jpg,elk,0.25,0.25,,,0.75,0.75,,\n"
                     "gs://bucket/b.jpg,owl,0,0,1,0,1,1,0,1\n")
                .boxes(),
            wanted);
  EXPECT_EQ(SmallCsv("set,path,label,x_min,y_min,x_max,y_min,x_max,y_max,x_min,y_max\n"
                     "TRAIN,a.jpg,elk,.25,.25,.75,.25,.75,.75,.25,.75\n"
                     "TRAIN,b.jpg,owl,0,0,1,0,1,1,0,1\n")
                .boxes(),
            wanted);
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

TEST(Csv, RefusesPixelsWhereALayoutHasShares) {
  EXPECT_EQ(
      SmallCsv("TRAIN,a.jpg,elk,0.25,0.25,,,0.75,0.75,,\nTRAIN,b.jpg,elk,3,4,,,9,9,,\n").refused(),
      "boxes.csv: line 2: the box is in pixels, but this layout uses normalised coordinates "
      "(0 to 1)");
}

TEST(Csv, RefusesSharesAmongPixels) {
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

TEST(Csv, FourCornersAreTheBoxAroundThem) {
  EXPECT_THAT(SmallCsv("filename,x1,y1,x2,y2,x3,y3,x4,y4,class\n"
                       "a.jpg,10,2,15,8,10,14,5,8,elk\n")
                  .boxes(),
              ElementsAre("a.jpg: elk 5 2 10 12"));
}

TEST(Csv, AClassesNameGoesBeforeItsNumber) {
  EXPECT_THAT(SmallCsv("image,xmin,ymin,xmax,ymax,confidence,class,name\n"
                       "a.jpg,1,2,5,10,0.9,16,dog\n")
                  .boxes(),
              ElementsAre("a.jpg: dog 1 2 4 8"));
}

TEST(Csv, AFolderIsPartOfTheName) {
  const std::string text =
      "folder,filename,xmin,ymin,xmax,ymax,class\n"
      "s1,a.jpg,1,2,5,10,elk\ns2,a.jpg,3,4,8,10,elk\n";
  EXPECT_THAT(SmallCsv(text).refused(),
              HasSubstr("line 3: a.jpg is listed under both \"s1\" and \"s2\", and neither"));
  const SmallCsv there(text);
  for (const char* name : {"images/s1/a.jpg", "images/s2/a.jpg"}) {
    there.write(name, encode_jpeg(Image(40, 20), 50));
  }
  EXPECT_THAT(there.boxes(), ElementsAre("s1/a.jpg: elk 1 2 4 8", "s2/a.jpg: elk 3 4 5 6"));
}

TEST(Csv, RefusesHeadersThatLackAColumn) {
  EXPECT_THAT(SmallCsv("xmin,ymin,xmax,ymax,class\n").refused(),
              AllOf(HasSubstr("line 1: no column for the image (want filename"),
                    HasSubstr("got \"xmin,ymin,xmax,ymax,class\"")));
  EXPECT_THAT(SmallCsv("filename,xmin,ymin,class\n").refused(),
              HasSubstr("line 1: no column for the box (want xmin,ymin,xmax,ymax or"));
  EXPECT_THAT(SmallCsv("filename,xmin,ymin,xmax,ymax,class,class\n").refused(),
              HasSubstr("line 1: column \"class\" appears twice"));
  EXPECT_THAT(SmallCsv("filename,file_size,file_attributes,region_count,region_id,"
                       "region_shape_attributes,region_attributes\n")
                  .refused(),
              HasSubstr("is a table of VGG Image Annotator"));
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
  EXPECT_EQ(SmallCsv("TRAIN,a.jpg,elk,.1,.2,,,,,,\n").refused(),
            "boxes.csv: line 1: has one vertex of a box, want two opposite vertices, or all four");
}

TEST(Csv, StatedSizesAreKeptAndZerosAreRead) {
  const char* head = "filename,width,height,class,xmin,ymin,xmax,ymax\n";
  EXPECT_EQ(SmallCsv(cat(head, "a.jpg,41,21,elk,1,2,5,10\n")).read().images[0].width, 41);
  EXPECT_EQ(SmallCsv(cat(head, "a.jpg,0,0,elk,1,2,5,10\n")).read().images[0].width, 40);
}

}  // namespace
}  // namespace retina
