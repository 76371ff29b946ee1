// What --output-format writes: each field, and that coco-pack's readers read the same back.
#include "evaluate/detection_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "preprocess/formats/annotation_source.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/evaluation/draw/shown_images.h"
#include "shared/image/jpeg.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

const CategoryMap kClasses({{.id = 3, .name = "cat"},
                            {.id = 7, .name = "a \"big\", dog: #1"},
                            {.id = 90, .name = "caf\xC3\xA9"}});
const std::vector<ImageInfo> kImages{
    {.id = 1, .file_name = "a.jpg", .width = 400, .height = 300},
    {.id = 2, .file_name = "none.jpg", .width = 40, .height = 30},
    {.id = 3, .file_name = "sub/b, \"c\" (2).jpeg", .width = 1000, .height = 500}};
const std::vector<Detection> kFound{
    {.image_id = 1, .category_id = 90, .bbox = {10, 20, 100, 60}, .score = 0.9},
    {.image_id = 1, .category_id = 3, .bbox = {0, 0, 400, 300}, .score = 0.25},
    {.image_id = 3, .category_id = 7, .bbox = {333.25, 1.5, 0.25, 77}, .score = 1.0 / 3}};

TEST(DetectionFormats, AYoloLineIsClassCentreSizeConfidenceAsUltralyticsWritesIt) {
  EXPECT_EQ(yolo_labels(kImages[0], detections_of(1, kFound), kClasses),
            "2 0.15 0.166667 0.25 0.2 0.9\n"
            "0 0.5 0.5 1 1 0.25\n");
  EXPECT_EQ(yolo_labels(kImages[1], detections_of(2, kFound), kClasses), "");
  EXPECT_EQ(yolo_labels(kImages[2], detections_of(3, kFound), kClasses),
            "1 0.333375 0.08 0.00025 0.154 0.333333\n");
}

TEST(DetectionFormats, ALabelFileLiesWhereItsImageDoes) {
  EXPECT_EQ(yolo_label_name("a.jpg"), "a.txt");
  EXPECT_EQ(yolo_label_name("sub/b.c/d.tar.png"), "sub/b.c/d.tar.txt");
  EXPECT_EQ(yolo_label_name("a.b/no ending"), "a.b/no ending.txt");
  EXPECT_EQ(yolo_label_name("/data/photos/a.jpg"), "data/photos/a.txt");
  EXPECT_EQ(yolo_label_name("../../photos/./a.jpg"), "photos/a.txt");
  EXPECT_EQ(yolo_label_name("caf\xE9.jpg"), "caf\xE9.txt");
}

TEST(DetectionFormats, TwoImagesOfOneLabelFileAreRefused) {
  check_yolo_label_names({"a.jpg", "b.jpg", "sub/a.jpg"});
  for (const auto& names : {std::vector<std::string>{"a.jpg", "b.jpg", "a.png"},
                            {"photos/a.jpg", "../photos/a.jpg"},
                            {std::string(250, 'x')}}) {
    try {
      check_yolo_label_names(names);
      FAIL() << names.back();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      EXPECT_THAT(error.what(), HasSubstr("--output-format yolo: its label file"));
      EXPECT_THAT(error.hint(), HasSubstr("--output-format csv"));
    }
  }
}

TEST(DetectionFormats, ACsvLineIsOneDetectionInPixels) {
  EXPECT_EQ(detections_csv(kImages, kFound, kClasses),
            "file_name,width,height,xmin,ymin,xmax,ymax,label,score\n"
            "a.jpg,400,300,10,20,110,80,caf\xC3\xA9,0.9\n"
            "a.jpg,400,300,0,0,400,300,cat,0.25\n"
            "\"sub/b, \"\"c\"\" (2).jpeg\",1000,500,333.25,1.5,333.5,78.5,"
            "\"a \"\"big\"\", dog: #1\",0.333333\n");
  EXPECT_EQ(detections_csv({{.id = 1, .file_name = "new\nline.jpg", .width = 9, .height = 9}},
                           {{.image_id = 1, .category_id = 3, .bbox = {1, 2, 3, 4}, .score = 0.5}},
                           kClasses),
            "file_name,width,height,xmin,ymin,xmax,ymax,label,score\n"
            "\"new\nline.jpg\",9,9,1,2,4,6,cat,0.5\n");
}

class ReadBack : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    make_folder_of(folder_ / name);
    write_file_atomically(folder_ / name, bytes);
  }
  Instances read(AnnotationFormat format, const char* annotations) const {
    return read_annotations(
               {.format = format, .path = folder_ / annotations, .images = folder_ / "images"})
        .instances;
  }
  // By file and class, for formats that number both in their own way.
  static std::vector<std::string> told(const Instances& instances) {
    std::vector<std::string> lines;
    const CategoryMap classes(instances.categories);
    for (const Annotation& one : instances.annotations) {
      std::string line =
          cat(instances.images.at(static_cast<std::size_t>(one.image_id) - 1).file_name, '|',
              classes.at(classes.label_of(one.category_id).value()).name);
      for (const double number : one.bbox) line += cat('|', fixed(number, 2));
      lines.push_back(line);
    }
    return lines;
  }
  void write_images() const {
    for (const ImageInfo& image : kImages) {
      write("images/" + image.file_name, encode_jpeg(Image(image.width, image.height), 50));
    }
  }

  const std::vector<std::string> wanted_{
      "a.jpg|caf\xC3\xA9|10.00|20.00|100.00|60.00", "a.jpg|cat|0.00|0.00|400.00|300.00",
      "sub/b, \"c\" (2).jpeg|a \"big\", dog: #1|333.25|1.50|0.25|77.00"};
  TestFolder folder_;
};

TEST_F(ReadBack, CsvByCocoPack) {
  write_images();
  write("detections.csv", detections_csv(kImages, kFound, kClasses));
  EXPECT_EQ(told(read(AnnotationFormat::kCsv, "detections.csv")), wanted_);
}

// As are formulas of spreadsheets, and class names that a checkpoint has with line breaks.
TEST_F(ReadBack, CsvOfNamesThatAreMoreThanNamesByCocoPack) {
  const CategoryMap classes({{.id = 1, .name = "=cmd|' /C calc'!A0"},
                             {.id = 2, .name = "line\nfeed"},
                             {.id = 3, .name = "'@"}});
  const ImageInfo image{.id = 1, .file_name = "-x.jpg", .width = 40, .height = 30};
  write("images/-x.jpg", encode_jpeg(Image(40, 30), 50));
  std::vector<Detection> found;
  for (const Category& one : classes.all()) {
    found.push_back({.image_id = 1, .category_id = one.id, .bbox = {1, 2, 3, 4}, .score = 0.5});
  }
  const std::string text = detections_csv({image}, found, classes);
  EXPECT_THAT(text, HasSubstr("\n'-x.jpg,40,30,1,2,4,6,'=cmd|' /C calc'!A0,0.5\n"));
  write("detections.csv", text);
  const std::string box = "|1.00|2.00|3.00|4.00";
  EXPECT_EQ(told(read(AnnotationFormat::kCsv, "detections.csv")),
            (std::vector<std::string>{"-x.jpg|=cmd|' /C calc'!A0" + box, "-x.jpg|line feed" + box,
                                      "-x.jpg|'@" + box}));
}

TEST_F(ReadBack, YoloByCocoPack) {
  write_images();
  write("data.yaml", yolo_data(kClasses));
  for (const ImageInfo& image : kImages) {
    write("labels/" + yolo_label_name(image.file_name),
          yolo_labels(image, detections_of(image.id, kFound), kClasses));
  }
  const Instances read_back = read(AnnotationFormat::kYolo, "data.yaml");
  EXPECT_EQ(told(read_back), wanted_);
  EXPECT_EQ(read_back.images.size(), 3U);
}

}  // namespace
}  // namespace retina
