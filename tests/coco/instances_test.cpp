#include "shared/coco/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/coco/categories.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

// A small good file; tests replace one part by something bad.
const std::string kImages = R"([{"id": 5, "file_name": "a.jpg", "width": 64, "height": 48},
 {"license": {"deep": [1, {"id": "x"}]}, "height": 10, "width": 20, "file_name": "b.jpg", "id": 3}])";
const std::string kAnnotations = R"([
 {"id": 11, "image_id": 5, "category_id": 2, "bbox": [0.1, 2, 30.25, 4e0], "area": 7.5,
  "iscrowd": 0, "segmentation": [[1.5, 2, 3, 4], [5, 6]]},
 {"segmentation": {"counts": [3, 4], "size": [48, 64]}, "iscrowd": 1, "bbox": [1, 1, 2, 3],
  "category_id": 1, "image_id": 3, "id": 12}])";
const std::string kCategories = R"([{"id": 2, "name": "dog", "supercategory": "animal"},
 {"id": 1, "name": "h\u00e9ron", "supercategory": null, "keypoints": ["nose"]}])";

std::string file_of(const std::string& images, const std::string& annotations,
                    const std::string& categories) {
  return "{\"info\": {\"images\": [1]}, \"images\": " + images +
         ", \"annotations\": " + annotations + ", \"categories\": " + categories + "}";
}

Instances read(const std::string& text) {
  const TestFolder folder;
  write_file_atomically(folder / "f.json", text);
  return read_instances(folder / "f.json");
}

// The message of the Error{kData} that reading `text` throws, without the file's folder.
std::string problem(const std::string& text) {
  const std::string message = refusal_of(ErrorKind::kData, [&] { read(text); });
  EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
  return message == "accepted" ? "no error" : message.substr(message.find("f.json"));
}

std::string problem_with_annotation(const std::string& annotation) {
  return problem(file_of(kImages, "[" + annotation + "]", kCategories));
}

TEST(Instances, ListsMayComeInAnyOrder) {
  const Instances all = read("{\"annotations\": " + kAnnotations +
                             ", \"categories\": " + kCategories + ", \"images\": " + kImages + "}");
  EXPECT_EQ(instances_to_json(all),
            instances_to_json(read(file_of(kImages, kAnnotations, kCategories))));
  EXPECT_EQ(problem("{\"annotations\": " + kAnnotations + ", \"categories\": " + kCategories +
                    ", \"images\": []}"),
            "f.json: the data set is empty (\"images\" has no entries)");
}

// Ids far apart, as annotation tools make them by hashing.
TEST(Instances, FindsImagesByAnyIds) {
  const std::string far =
      R"([{"id": -9000000000000000000, "file_name": "a", "width": 1, "height": 1},
    {"id": 9000000000000000000, "file_name": "b", "width": 1, "height": 1}])";
  const auto box = [](const char* image) {
    return cat(R"([{"id": 8, "image_id": )", image,
               R"(, "category_id": 1, "bbox": [0, 0, 1, 1]}])");
  };
  EXPECT_EQ(read(file_of(far, box("9000000000000000000"), kCategories)).annotations.size(), 1U);
  EXPECT_EQ(problem(file_of(far, box("7"), kCategories)),
            "f.json: annotations[0] (id 8): image_id 7 is not among the images");
}

TEST(Instances, ReadsWhatCocoFilesHold) {
  const Instances all = read(file_of(kImages, kAnnotations, kCategories));
  ASSERT_EQ(all.images.size(), 2U);
  EXPECT_EQ(all.images[0].id, 5);
  EXPECT_EQ(all.images[1].file_name, "b.jpg");
  EXPECT_EQ(all.images[1].width, 20);
  EXPECT_EQ(all.images[1].height, 10);
  ASSERT_EQ(all.annotations.size(), 2U);
  EXPECT_EQ(all.annotations[0].bbox, (std::array<double, 4>{0.1, 2, 30.25, 4}));
  EXPECT_EQ(all.annotations[0].area, 7.5);
  EXPECT_FALSE(all.annotations[0].iscrowd);
  EXPECT_EQ(all.annotations[1].id, 12);
  EXPECT_EQ(all.annotations[1].area, 6) << "width * height without an area";
  EXPECT_TRUE(all.annotations[1].iscrowd);
  ASSERT_EQ(all.categories.size(), 2U);
  EXPECT_EQ(all.categories[1].name, "h\xC3\xA9ron");
  EXPECT_EQ(all.categories[1].supercategory, "");
}

TEST(Instances, WrittenJsonReadsBackTheSame) {
  const Instances all = read(file_of(kImages, kAnnotations, kCategories));
  const std::string text = instances_to_json(all);
  EXPECT_EQ(instances_to_json(read(text)), text);
}

TEST(Instances, UnusualFilesAreTaken) {
  EXPECT_EQ(problem_with_annotation(
                R"({"id": 1.0, "image_id": 5.0, "category_id": 2, "bbox": [1, 1, 1, 1]})"),
            "no error")
      << "integral floats are ids";
  EXPECT_EQ(problem("\xEF\xBB\xBF" + file_of(kImages, kAnnotations, kCategories)), "no error");
  EXPECT_EQ(problem(file_of(kImages, "[]", kCategories)), "no error") << "images alone are fine";
  const Instances degenerate = read(
      file_of(kImages, R"([{"id": 1, "image_id": 5, "category_id": 2, "bbox": [3, 4, 0, -2]}])",
              kCategories));
  EXPECT_EQ(degenerate.annotations.at(0).bbox[3], -2);
}

TEST(Instances, MissingFilesAreNoInput) {
  for (const std::string path : {"/nonexistent/instances.json", "/"}) {
    EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { read_instances(path); }), HasSubstr(path));
  }
}

TEST(Instances, EveryCutIsASyntaxErrorWithItsPlace) {
  const std::string text = file_of(kImages, kAnnotations, kCategories);
  EXPECT_EQ(problem(""), "f.json: got an empty file, want JSON");
  for (std::size_t size = 1; size < text.size(); ++size) {
    ASSERT_THAT(problem(text.substr(0, size)), HasSubstr("f.json: not valid JSON at line "))
        << size;
  }
  EXPECT_THAT(problem("{\n \"images\": [,]}"), HasSubstr("at line 2, column 13, byte 14"));
  EXPECT_THAT(problem(text + "x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(problem("{\"images\": [{\"file_name\": \"\xFF.jpg\"}]}"), HasSubstr("encoding"));
}

TEST(Instances, DeepNestingDoesNotOverflowTheStack) {
  const std::string deep(2'000'000, '[');
  EXPECT_THAT(problem("{\"info\": " + deep), HasSubstr("not valid JSON"));
  const std::string closed = deep + std::string(deep.size(), ']');
  EXPECT_THAT(problem("{\"info\": " + closed + "}"), HasSubstr("\"images\" is missing"));
}

TEST(Instances, WrongShapesAreNamed) {
  EXPECT_EQ(problem("[]"), "f.json: got an array, want an object");
  EXPECT_EQ(problem("3"), "f.json: got a number, want an object");
  EXPECT_EQ(problem("{}"), "f.json: key \"images\" is missing");
  EXPECT_EQ(problem(R"({"images": [], "categories": []})"),
            "f.json: key \"annotations\" is missing");
  EXPECT_EQ(problem(R"({"images": [], "annotations": []})"),
            "f.json: key \"categories\" is missing");
  EXPECT_EQ(problem(R"({"images": [], "images": []})"), "f.json: key \"images\" appears twice");
  EXPECT_EQ(problem(file_of("{}", "[]", "[]")), "f.json: images: got an object, want an array");
  EXPECT_EQ(problem(file_of("null", "[]", "[]")), "f.json: images: got null, want an array");
  EXPECT_EQ(problem(file_of("[[1]]", "[]", "[]")),
            "f.json: images[0]: got an array, want an object");
  EXPECT_EQ(problem(file_of(kImages, "[7]", kCategories)),
            "f.json: annotations[0]: got a number, want an object");
}

TEST(Instances, EmptyDataSetsAreRefused) {
  EXPECT_EQ(problem(file_of("[]", "[]", kCategories)),
            "f.json: the data set is empty (\"images\" has no entries)");
  EXPECT_EQ(problem(file_of(kImages, "[]", "[]")),
            "f.json: the data set has no classes (\"categories\" has no entries)");
}

TEST(Instances, BadImagesAreNamed) {
  for (const auto& [image, told] : {
           std::pair{R"("id": 1, "file_name": "a", "width": 3)",
                     " (id 1): key \"height\" is missing"},
           {R"("id": "1", "file_name": "a", "width": 3, "height": 3)",
            ": id: got \"1\", want an integer"},
           {R"("id": 1, "file_name": "a", "width": 3.50, "height": 3)",
            " (id 1): width: got 3.5, want an integer"},
           {R"("id": 12345678901234567890123, "file_name": "a", "width": 3, "height": 3)",
            ": id: got 1.2345678901234568e+22, want an integer"},
           {R"("id": 1, "file_name": 7, "width": 3, "height": 3)",
            " (id 1): file_name: got 7, want a string"},
           {R"("id": 1, "file_name": "", "width": 3, "height": 3)", " (id 1): file_name is empty"},
           {R"("id": 1, "file_name": "a", "width": 0, "height": 3)",
            " (id 1): width: got 0, want 1 to 2147483647"},
           {R"("id": 1, "file_name": "a", "width": 3, "height": -4)",
            " (id 1): height: got -4, want 1 to 2147483647"},
           {R"("id": 1, "file_name": "a", "width": 2147483648, "height": 3)",
            " (id 1): width: got 2147483648, want 1 to 2147483647"},
           {R"("id": 1, "file_name": "a", "width": null, "height": 4)",
            " (id 1): width: got null, want an integer"},
       }) {
    EXPECT_EQ(problem(file_of(cat("[{", image, "}]"), "[]", kCategories)),
              cat("f.json: images[0]", told));
  }
}

TEST(Instances, NamesThatNoFileHasAreNamed) {
  const auto with = [](const std::string& name) {
    return problem(file_of(R"([{"id": 1, "width": 3, "height": 3, "file_name": ")" + name + "\"}]",
                           "[]", kCategories));
  };
  EXPECT_EQ(with("a\\u0000.jpg"),
            "f.json: images[0] (id 1): file_name: has a NUL character, which no file's name has");
  EXPECT_EQ(with("caf\\udce9.jpg"),
            "f.json: images[0] (id 1): file_name: got \"caf\\xed\\xb3\\xa9.jpg\", want UTF-8")
      << "Python's text of a name in Latin-1";
  EXPECT_EQ(with("caf\\ud83d\\udc31.jpg"), "no error");
  EXPECT_THAT(with("caf\xe9.jpg"), HasSubstr("(Invalid encoding in string.)"));
  EXPECT_EQ(problem(file_of(kImages, "[]", R"([{"id": 1, "name": "\udce9"}])")),
            "f.json: categories[0] (id 1): name: got \"\\xed\\xb3\\xa9\", want UTF-8");
}

TEST(Instances, AKeyThatComesTwiceInAnEntryIsNamed) {
  const std::string box = R"({"id": 8, "image_id": 5, "category_id": 2, "bbox": [1, 1, 1, 1])";
  EXPECT_EQ(problem_with_annotation(box + R"(, "bbox": [2, 2, 2, 2]})"),
            "f.json: annotations[0] (id 8): key \"bbox\" appears twice");
  EXPECT_EQ(problem_with_annotation(box + R"(, "iscrowd": null, "iscrowd": 1})"),
            "f.json: annotations[0] (id 8): key \"iscrowd\" appears twice");
  EXPECT_EQ(problem_with_annotation(box + R"(, "x": 1, "x": 2})"), "no error") << "nobody reads it";
  EXPECT_EQ(problem(file_of(kImages, "[]", R"([{"id": 1, "name": "a", "name": "b"}])")),
            "f.json: categories[0] (id 1): key \"name\" appears twice");
}

TEST(Categories, OfAFileAreReadWithoutItsImages) {
  const TestFolder folder;
  const std::string path = folder / "c.json";
  const std::string list = R"([{"id": 2, "name": "dog"}, {"id": 1, "name": "cat"}])";
  for (const std::string& text :
       {list, R"({"categories": )" + list + "}",
        R"({"images": [], "annotations": [{}], "categories": )" + list + "}"}) {
    write_file_atomically(path, text);
    const Categories all = read_categories(path);
    ASSERT_EQ(all.size(), 2U) << text;
    EXPECT_EQ(all[0].name, "dog");
  }
  const auto refusal = [&](const std::string& text) {
    write_file_atomically(path, text);
    return refusal_of(ErrorKind::kData, [&] { read_categories(path); });
  };
  EXPECT_THAT(refusal(R"({"images": []})"), HasSubstr("key \"categories\" is missing"));
  EXPECT_THAT(refusal("[]"), HasSubstr("has no classes"));
  EXPECT_THAT(refusal(R"(["cat"])"), HasSubstr("entry [0]: got a string, want an object"));
  EXPECT_THAT(refusal(R"([{"id": 1, "name": "a"}, {"id": 1, "name": "b"}])"),
              HasSubstr("categories[1]: id 1 is already used"));
}

TEST(Instances, DuplicateIdsAreNamedWithBothPlaces) {
  const std::string image = R"({"id": 4, "file_name": "a", "width": 3, "height": 3})";
  EXPECT_EQ(problem(file_of("[" + image + "," + image + "]", "[]", kCategories)),
            "f.json: images[1]: id 4 is already used at images[0]");
  EXPECT_EQ(problem(file_of(kImages, "[]", R"([{"id": 1, "name": "a"}, {"id": 1, "name": "b"}])")),
            "f.json: categories[1]: id 1 is already used at categories[0]");
  const std::string box = R"({"id": 8, "image_id": 5, "category_id": 2, "bbox": [1, 1, 1, 1]})";
  EXPECT_EQ(problem_with_annotation(box + "," + box),
            "f.json: annotations[1]: id 8 is already used at annotations[0]");
}

TEST(Instances, DanglingReferencesAreNamed) {
  EXPECT_EQ(problem_with_annotation(
                R"({"id": 8, "image_id": 6, "category_id": 2, "bbox": [1, 1, 1, 1]})"),
            "f.json: annotations[0] (id 8): image_id 6 is not among the images");
  EXPECT_EQ(problem_with_annotation(
                R"({"id": 8, "image_id": 5, "category_id": 9, "bbox": [1, 1, 1, 1]})"),
            "f.json: annotations[0] (id 8): category_id 9 is not among the categories");
}

TEST(Instances, BadBoxesAreNamedWithTheirId) {
  const auto with = [](const std::string& box, const std::string& rest = "") {
    return problem_with_annotation(R"({"bbox": )" + box +
                                   R"(, "id": 8, "image_id": 5, "category_id": 2)" + rest + "}");
  };
  EXPECT_EQ(with("[1, NaN, 3, 4]"),
            "f.json: annotations[0] (id 8): bbox: got nan, want a finite number");
  EXPECT_EQ(with("[1, 2, 3, -Infinity]"),
            "f.json: annotations[0] (id 8): bbox: got -inf, want a finite number");
  EXPECT_EQ(with("[1, 2, 3, 4]", R"(, "area": NaN)"),
            "f.json: annotations[0] (id 8): area: got nan, want a finite number");
  EXPECT_EQ(with("[1, 2, 3]"), "f.json: annotations[0]: bbox: got 3 numbers, want 4");
  EXPECT_EQ(with("[1, 2, 3, 4, 5]"), "f.json: annotations[0]: bbox: got 5 numbers, want 4");
  EXPECT_EQ(with("[1, 2, \"3\", 4]"),
            "f.json: annotations[0]: bbox: got a string inside, want 4 numbers");
  EXPECT_EQ(with("[[1, 2, 3, 4]]"),
            "f.json: annotations[0]: bbox: got an array inside, want 4 numbers");
  EXPECT_EQ(with("null"), "f.json: annotations[0]: bbox: got null, want 4 numbers");
  EXPECT_EQ(with("[1, 2, 3, 4]", R"(, "iscrowd": 2)"),
            "f.json: annotations[0] (id 8): iscrowd: got 2, want 0 or 1");
  EXPECT_EQ(with("[1, 2, 3, 4]", R"(, "area": null, "iscrowd": null)"), "no error");
  EXPECT_THAT(with("[1, 2, 3, 1e999]"), HasSubstr("not valid JSON at line"));
}

TEST(Instances, RealFilesReadWhole) {
  RETINA_DATA_OR_SKIP(path, "eval/cocoapi_val2014_100/gt.json");
  const Instances all = read_instances(path);
  EXPECT_EQ(all.categories.size(), 80U);
  EXPECT_EQ(instances_to_json({.categories = all.categories}),
            instances_to_json({.categories = coco_categories()}));
  EXPECT_GT(all.annotations.size(), all.images.size());
}

}  // namespace
}  // namespace retina
