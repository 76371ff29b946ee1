#include "shared/coco/box_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using Box = std::array<double, 4>;

// Images of 100 x 80 pixels, a box each, ids from 1.
Instances instances_of(const std::vector<Box>& boxes) {
  Instances all{.categories = {{.id = 1, .name = "cat"}}};
  for (std::int64_t id = 1; const Box& box : boxes) {
    all.images.push_back({.id = id, .file_name = "a.jpg", .width = 100, .height = 80});
    all.annotations.push_back({.id = 10 * id, .image_id = id, .category_id = 1, .bbox = box});
    ++id;
  }
  return all;
}

// Box i is on image i / boxes_per_image.
class Listed : public AnnotationList {
 public:
  explicit Listed(const Instances& truth, std::size_t boxes_per_image = 1)
      : truth_(truth), boxes_per_image_(boxes_per_image) {}
  void reserve(std::size_t) override {}
  void add(const Annotation&, std::size_t) override {}
  std::size_t size() const override { return truth_.annotations.size(); }
  Annotation at(std::size_t i) const override { return truth_.annotations[i]; }
  std::size_t image(std::size_t i) const override { return i / boxes_per_image_; }

 private:
  const Instances& truth_;
  std::size_t boxes_per_image_;
};

std::string doubt(const std::vector<Box>& boxes) {
  const Instances truth = instances_of(boxes);
  return box_format_warning(truth.images, Listed(truth));
}

TEST(Doubts, BoxesInsideTheirImagesHaveNone) {
  EXPECT_EQ(doubt({}), "");
  EXPECT_EQ(doubt({{0, 0, 100, 80}, {99, 79, 1, 1}, {3, 4, 0.5, 0.5}}), "");
  EXPECT_EQ(doubt({{-0.4, -1, 101, 81.2}}), "") << "rounding of other tools";
  EXPECT_EQ(doubt({{500, 4, 0, 3}, {500, 4, 3, -3}}), "")
      << "boxes without area are told elsewhere";
}

TEST(Doubts, CornersAreToldWithTheirNumberAndTheCure) {
  const std::string text =
      doubt({{5, 5, 20, 20}, {60, 30, 90, 70}, {40, 50, 70, 75}, {70, 10, 99, 40}});
  EXPECT_EQ(text,
            "3 of 4 boxes reach beyond their image, but the boxes fit as corners x1, y1, x2, y2 "
            "(first: a.jpg (image 2), annotation 20); want x, y, width, height: convert them");
}

TEST(Doubts, FewCarelessBoxesAreNotCorners) {
  const std::string text = doubt({{60, 30, 50, 30}, {2, 3, 10, 10}, {50, 3, 10, 10}, {3, 3, 9, 9}});
  EXPECT_EQ(text, "1 of 4 boxes reaches beyond its image (first: a.jpg (image 1), annotation 10)");
}

TEST(Doubts, BoxesMostlyOutsideAreCountedWithTheFirst) {
  EXPECT_EQ(
      doubt(
          {{2, 3, 10, 10}, {95, 3, 7, 10}, {95, 3, 20, 10}, {300, 300, 10, 10}, {-30, 3, 10, 10}}),
      "4 of 5 boxes reach beyond their image, 3 wholly or mostly outside it (first: a.jpg "
      "(image 3), annotation 30)");
}

TEST(Doubts, SharesOfTheImageAreTold) {
  EXPECT_THAT(doubt({{0.1, 0.2, 0.5, 0.5}, {0.9, 0.2, 0.1, 1}}),
              HasSubstr("all 2 boxes lie within one pixel, as shares of the image's sides do"));
  EXPECT_EQ(doubt({{0.1, 0.2, 0.5, 0.5}, {9, 2, 1, 1}}), "");
}

TEST(Doubts, DetectionsAreToldByTheirEntry) {
  const Instances truth = instances_of({{1, 1, 5, 5}, {1, 1, 5, 5}});
  const std::vector<Detection> found{{.image_id = 7, .bbox = {500, 5, 5, 5}},
                                     {.image_id = 1, .bbox = {5, 5, 5, 5}},
                                     {.image_id = 2, .bbox = {500, 5, 5, 5}}};
  EXPECT_EQ(boxes_outside_warning(truth, found),
            "1 of 2 boxes reaches beyond its image, 1 wholly or mostly outside it (first: a.jpg "
            "(image 2), entry 2)");
}

TEST(Doubts, AnnotationIdZeroIsToldWithWhatItCosts) {
  Instances truth = instances_of({{1, 1, 5, 5}, {1, 1, 5, 5}});
  EXPECT_EQ(annotation_0_warning(truth.images, Listed(truth)), "");
  truth.annotations[1].id = 0;
  EXPECT_THAT(annotation_0_warning(truth.images, Listed(truth)),
              HasSubstr("annotation id 0 (image 2)"));
}

TEST(Doubts, BoxesThatAnImageHasTwiceAreTold) {
  Instances truth = instances_of({{1, 1, 5, 5}, {1, 1, 5, 5}, {1, 1, 5, 5}, {1, 1, 5, 5}});
  EXPECT_EQ(duplicate_box_warning(truth.images, Listed(truth)), "") << "on images of their own";
  EXPECT_EQ(duplicate_box_warning(truth.images, Listed(truth, 2)),
            "2 boxes repeat another one of the same image and class (first: a.jpg (image 1), "
            "annotations 10 and 20): a detection finds one of the two, and the other counts as "
            "missed; remove them");
  truth.annotations[1].bbox[0] += 1e-6;
  EXPECT_THAT(duplicate_box_warning(truth.images, Listed(truth, 2)), StartsWith("2 boxes repeat"));
  truth.annotations[1].bbox[0] += 0.02;
  EXPECT_THAT(duplicate_box_warning(truth.images, Listed(truth, 2)), StartsWith("1 box repeats"));
  truth.annotations[1].category_id = 2;
  truth.annotations[3].iscrowd = true;
  EXPECT_EQ(duplicate_box_warning(truth.images, Listed(truth, 2)), "");
}

TEST(Doubts, AreasThatNoOutlineInTheBoxHasAreTold) {
  Instances truth = instances_of({{1, 1, 20, 10}, {1, 1, 20, 10}, {1, 1, 20, 10}, {1, 1, 0, 10}});
  const auto told = [&](double area) {
    truth.annotations[1].area = area;
    return area_warning(truth.images, Listed(truth));
  };
  for (Annotation& one : truth.annotations) one.area = 200;
  for (const double area : {200.0, 231.0, 87.5, 1e-9}) EXPECT_EQ(told(area), "") << area;
  EXPECT_EQ(
      told(2000),
      "1 area is impossible, 0 or more than the box has (first: a.jpg (image 2), annotation 20: "
      "2000 for 20 x 10 px): AP of small, medium and large objects sorts them by it; correct "
      "it or leave \"area\" out");
  EXPECT_THAT(told(0), HasSubstr("annotation 20: 0 for"));
  EXPECT_THAT(told(-1), HasSubstr("1 area is"));
  truth.annotations[1].iscrowd = true;
  EXPECT_EQ(told(0), "");
}

TEST(Doubts, OfInstancesAllAreTold) {
  Instances truth = instances_of({{1, 1, 5, 5}, {95, 3, 20, 10}, {1, 1, 5, 5}});
  truth.annotations[2].image_id = 1;
  truth.annotations[0].area = truth.annotations[2].area = 25;
  const std::vector<std::string> notes = box_notes(truth);
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_THAT(notes[0], HasSubstr("1 of 3 boxes reaches beyond"));
  EXPECT_THAT(notes[1], HasSubstr("annotations 10 and 30"));
  EXPECT_THAT(notes[2], HasSubstr("(image 2), annotation 20: 0 for 20 x 10 px"));
}

TEST(Doubts, ImagesOfOneFileAreTold) {
  Instances truth = instances_of({{1, 1, 5, 5}, {1, 1, 5, 5}, {1, 1, 5, 5}});
  truth.images[0].file_name = "b.jpg";
  EXPECT_THAT(shared_files(truth.images),
              HasSubstr("1 image has the file of another image (a.jpg: 2 and 3)"));
  truth.images[2].file_name = "./b.jpg";
  EXPECT_THAT(shared_files(truth.images), HasSubstr("b.jpg: 1 and 3"));
  truth.images[2].file_name = "c.jpg";
  EXPECT_EQ(shared_files(truth.images), "");
}

TEST(Doubts, RotatedBoxesAreCounted) {
  const auto read = [](const char* angle) {
    const TestFolder folder;
    write_file_atomically(
        folder / "a.json",
        cat(R"({"images":[{"id":1,"file_name":"a.jpg","width":9,"height":9}],"categories":)",
            R"([{"id":1,"name":"a"}],"annotations":[{"id":1,"image_id":1,"category_id":1,)",
            R"("bbox":[1,1,2,2],"attributes":{"rotation": )", angle, "}}]}"));
    return rotated_boxes(read_instances(folder / "a.json"));
  };
  EXPECT_THAT(read("30.5"), HasSubstr("1 annotation has a \"rotation\" that is not 0"));
  EXPECT_EQ(read("0.0"), "");
}

}  // namespace
}  // namespace retina
