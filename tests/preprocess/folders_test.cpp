// A folder for each class, and a flat folder with a list: what becomes a class, and what is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "preprocess/packer.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_classes.h"
#include "tests/support/images/images.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

// "cat/1.jpg" -> "cat".
std::map<std::string, std::string> class_of_image(const ReadAnnotations& read) {
  std::map<std::string, std::string> classes;
  for (std::size_t i = 0; i < read.instances.images.size(); ++i) {
    classes[read.instances.images[i].file_name] =
        read.instances.categories[static_cast<std::size_t>(read.image_labels.at(i))].name;
  }
  return classes;
}

class Folders : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write_file_atomically(folder_ / name, bytes);
  }
  // Empty files of these names in the folder of images.
  void images(const std::vector<std::string>& names) const {
    for (const std::string& name : names) write("images/" + name, "");
  }
  AnnotationSource source(const std::string& classes = "") const {
    AnnotationSource source{.format = AnnotationFormat::kFolders, .images = folder_ / "images"};
    if (classes.empty()) return source;
    write("classes", classes);
    source.classes = folder_ / "classes";
    return source;
  }
  // A flat folder with these classes.
  AnnotationSource flat(const std::string& annotations, const std::string& classes) const {
    AnnotationSource flat = source(classes);
    write("truth", annotations);
    flat.path = folder_ / "truth";
    return flat;
  }
  std::string refusal(const AnnotationSource& source, ErrorKind kind = ErrorKind::kData) const {
    return without_folder(refusal_of(kind, [&] { read_annotations(source); }), folder_.path());
  }
  static std::string log_of(const AnnotationSource& source) {
    CaptureStderr();
    read_annotations(source);
    return GetCapturedStderr();
  }

  TestFolder folder_;
};

TEST_F(Folders, AreTheClassesInTheOrderOfTheirNamesBytes) {
  for (const char* name : {"b", "B", "10", "9", "a b", "\xC3\xA9"}) {
    write(std::string("images/") + name + "/1.jpg", "");
  }
  const ReadAnnotations read = read_annotations(source());
  EXPECT_THAT(class_names(read), ElementsAre("10", "9", "B", "a b", "b", "\xC3\xA9"));
  EXPECT_THAT(read.image_labels, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(read.instances.categories[0].id, 1);
  EXPECT_EQ(read.instances.images[0].file_name, "10/1.jpg");
}

TEST_F(Folders, HoldJpegsOfAnyEndingAtAnyDepth) {
  images({"a/1.jpg", "a/2.JPEG", "a/b/c d/3.jpe", "a/4.jfif", "a/5.JIF"});
  write("images/a/6.jpx", "");
  const ReadAnnotations read = read_annotations(source());
  EXPECT_EQ(read.image_labels.size(), 5U);
  EXPECT_EQ(class_of_image(read).at("a/b/c d/3.jpe"), "a");
}

TEST_F(Folders, WhatIsLeftOutIsTold) {
  SmallFolders{folder_.path()}.write();
  images({"cat/1.png", "cat/2.WebP", "cat/3.TIF", "dog/notes.txt", "dog/Makefile", "top.jpg"});
  const std::string log = log_of(source());
  EXPECT_THAT(log, HasSubstr("images: 5 files are skipped, not named as JPEGs (without an ending "
                             "1, .png 1, .tif 1, .txt 1, .webp 1); --convert takes .png, .tif, "
                             ".tiff and .webp, too\n"));
  EXPECT_THAT(log, HasSubstr("images: 1 image is skipped, outside every class folder (top.jpg)"));
  EXPECT_THAT(log, HasSubstr("images: 1 class has no images (empty)"));
  AnnotationSource converting = source();
  converting.convert = true;
  EXPECT_THAT(log_of(converting), HasSubstr("images: 2 files are skipped, not named as images "
                                            "(without an ending 1, .txt 1)\n"));
  EXPECT_EQ(read_annotations(converting).image_labels.size(), 24U);
}

TEST_F(Folders, OfOtherFormatsAloneNeedConvert) {
  images({"cat/1.png", "cat/2.png", "dog/3.tiff"});
  EXPECT_THAT(refusal(source()), HasSubstr("images: has no JPEGs (got .png 2, .tiff 1)"));
  AnnotationSource converting = source();
  converting.convert = true;
  EXPECT_EQ(read_annotations(converting).image_labels.size(), 3U);
}

TEST_F(Folders, ThatSystemsLeaveBehindAreNoClasses) {
  images({"cat/1.jpg", "cat/._1.jpg", "cat/.ipynb_checkpoints/1.jpg", "cat/Thumbs.db",
          ".ipynb_checkpoints/1.jpg", "__MACOSX/cat/1.jpg", "@eaDir/1.jpg", ".git/1.jpg",
          "dog/2.jpg", "desktop.ini"});
  const ReadAnnotations read = read_annotations(source());
  EXPECT_THAT(class_names(read), ElementsAre("cat", "dog"));
  EXPECT_EQ(read.image_labels.size(), 2U);
  EXPECT_THAT(log_of(source()),
              testing::EndsWith("images: its folders are the 2 classes cat, dog\n"));
}

TEST_F(Folders, ThatArePartsOfASetAreTold) {
  images({"train/cat/1.jpg", "Val/cat/2.jpg"});
  const std::string log = log_of(source());
  EXPECT_THAT(log, HasSubstr("images: its folders are the 2 classes Val, train\n"));
  EXPECT_THAT(log, AllOf(HasSubstr("look like splits, not classes"),
                         HasSubstr("images/Val; for bounding boxes")));
  write("images/cat/1.jpg", "");
  EXPECT_THAT(log_of(source()), testing::Not(HasSubstr("look like splits")));
}

TEST_F(Folders, TakeTheOrderOfAListOfClasses) {
  SmallFolders{folder_.path()}.write();
  const AnnotationSource listed = source("  bird\nempty\r\n\ndog \ncat");
  const ReadAnnotations read = read_annotations(listed);
  EXPECT_THAT(class_names(read), ElementsAre("bird", "empty", "dog", "cat"));
  EXPECT_EQ(class_of_image(read).at("cat/1.jpg"), "cat");
  EXPECT_THAT(log_of(listed), HasSubstr("2 classes have no images (bird, empty)"));
  EXPECT_EQ(refusal(source("dog\nempty\n")), "images/cat: is not a class of classes");
  EXPECT_EQ(refusal(source("dog\ncat\ndog\n")),
            "classes: line 3: class \"dog\" already appears on line 1");
  EXPECT_EQ(refusal(source("\n\n")), "classes: has no classes (want a class name a line)");
}

// synset_words.txt, LOC_synset_mapping.txt and the devkit's map_clsloc.txt.
TEST_F(Folders, OfALineWithAWordNetIdTheClassIsTheId) {
  images({"n01440764/1.jpg", "n02119789/1.jpg"});
  for (const char* lines : {"n02119789 kit fox, Vulpes macrotis\nn01440764 tench, Tinca tinca\n",
                            "n02119789 1 kit_fox\nn01440764 2 tench\n", "n02119789\nn01440764\n"}) {
    EXPECT_THAT(class_names(read_annotations(source(lines))),
                ElementsAre("n02119789", "n01440764"));
  }
}

TEST_F(Folders, WhoseNamesAreNotUtf8AreNamed) {
  images({"cat/1.jpg", "cat/\xE8.jpg"});
  EXPECT_EQ(refusal(source()), "images/cat/\\xe8.jpg: the file's name is not UTF-8");
  fs::remove(folder_ / "images/cat/\xE8.jpg");
  write("images/\xE9lan/1.jpg", "");
  EXPECT_EQ(refusal(source()), "images/\\xe9lan: the class folder's name is not UTF-8");
  EXPECT_EQ(refusal(source("cat\n\xE9lan\n")), "classes: line 2: is not UTF-8 (got \"\\xe9lan\")");
}

TEST_F(Folders, WithoutImagesOrClassesAreRefused) {
  write("images/x.jpg", "");
  EXPECT_EQ(refusal(source()), "images: has no folders (want one of images for each class)");
  fs::create_directories(folder_ / "images/cat");
  EXPECT_EQ(refusal(source()), "images: has no images in its class folders (want .jpg or .jpeg)");
}

TEST_F(Folders, FlatOnesTakeAClassIdForEachNameInOrder) {
  images({"val_2.JPEG", "val_10.JPEG", "val_1.JPEG"});
  const ReadAnnotations read = read_annotations(flat("2\r\n1\n 2\n\n", "owl\ncat\n"));
  EXPECT_EQ(class_of_image(read),
            (std::map<std::string, std::string>{
                {"val_1.JPEG", "cat"}, {"val_10.JPEG", "owl"}, {"val_2.JPEG", "cat"}}));
  EXPECT_EQ(refusal(flat("1\n2\n3\n", "owl\ncat\n")),
            "truth: line 3: class id: got 3, want 1..2, a class of classes");
  EXPECT_EQ(refusal(flat("0\n1\n1\n", "owl\ncat\n")),
            "truth: line 1: class id: got 0, want 1..2, a class of classes");
  EXPECT_THAT(refusal(flat("99999999999999999999999\n1\n1\n", "owl\ncat\n")),
              HasSubstr("got 99999999999999999999999, want 1..2"));
  EXPECT_EQ(refusal(flat("1\n1\n", "owl\ncat\n")),
            "truth: does not have exactly one class id per image (got 2 ids, 3 images in images)");
  EXPECT_EQ(refusal(flat("1\n1\n1\n", ""), ErrorKind::kConfig),
            "truth: lists class ids, which needs --classes");
}

TEST_F(Folders, IdsWithClassesInTheOrderOfWordNetAreWarnedOf) {
  images({"1.jpg", "2.jpg"});
  EXPECT_THAT(log_of(flat("1\n2\n", "n01440764 tench\nn02119789 kit fox\n")),
              HasSubstr("numbers classes in the order of map_clsloc.txt; if"));
  EXPECT_THAT(log_of(flat("1\n2\n", "n02119789 1 kit_fox\nn01440764 2 tench\n")), "");
}

TEST_F(Folders, FlatOnesTakeLinesOfNameAndClass) {
  images({"a.jpg", "sub/b.jpeg", "c, d.jpg", "unlisted.jpg"});
  const AnnotationSource truth =
      flat("sub/b.jpeg,owl\n\"c, d.jpg\", cat \na.jpg,owl\ngone.jpg,cat\n", "");
  const ReadAnnotations read = read_annotations(truth);
  EXPECT_THAT(class_names(read), ElementsAre("cat", "owl"));
  EXPECT_EQ(
      class_of_image(read),
      (std::map<std::string, std::string>{
          {"a.jpg", "owl"}, {"c, d.jpg", "cat"}, {"gone.jpg", "cat"}, {"sub/b.jpeg", "owl"}}));
  EXPECT_THAT(log_of(truth), HasSubstr("1 image is skipped, not in "));
  EXPECT_THAT(class_names(read_annotations(flat("a.jpg,owl\n", "owl\nbat\n"))),
              ElementsAre("owl", "bat"));
  EXPECT_EQ(refusal(flat("a.jpg,owl\na.jpg,cat\n", "")),
            "truth: line 2: a.jpg already appears on line 1");
  EXPECT_EQ(refusal(flat("\na.jpg,owl\n", "cat\n")),
            "truth: line 2: class \"owl\" is not in classes");
  for (const char* bad : {"a.jpg\n", "a.jpg 65\n", ",owl\n", "a.jpg,\n", "a.jpg,owl,2\n", "-1\n"}) {
    EXPECT_THAT(refusal(flat(bad, "")),
                AllOf(HasSubstr("truth: line 1: got \""), HasSubstr("want FILE NAME,CLASS")))
        << bad;
  }
  EXPECT_EQ(refusal(flat("", "")), "truth: the data set is empty (it lists no images)");
}

// LOC_val_solution.csv: names without their ending, boxes behind the class.
TEST_F(Folders, FlatOnesTakeKagglesGroundTruth) {
  images({"ILSVRC2012_val_00000001.JPEG", "ILSVRC2012_val_00000002.JPEG"});
  const AnnotationSource truth = flat(
      "ImageId,PredictionString\nILSVRC2012_val_00000002,n03995372 85 1 499 272 \n"
      "ILSVRC2012_val_00000001,n01440764 1 2 3 4 n01440764 5 6 7 8 \n",
      "");
  EXPECT_EQ(class_of_image(read_annotations(truth)),
            (std::map<std::string, std::string>{{"ILSVRC2012_val_00000001.JPEG", "n01440764"},
                                                {"ILSVRC2012_val_00000002.JPEG", "n03995372"}}));
  EXPECT_THAT(log_of(truth), HasSubstr("line 1 is taken as the columns' names"));
}

// A name is looked for as packing does before its image counts as skipped.
TEST_F(Folders, FlatOnesTakeOtherSpellingsOfANameAndNoExchangedColumns) {
  images({"1.jpg", "sub/2.jpg"});
  const AnnotationSource spelled = flat("images/1.jpg,cat\nsub\\2.jpg,dog\n", "");
  EXPECT_EQ(log_of(spelled), "");
  EXPECT_THAT(class_of_image(read_annotations(spelled)),
              ElementsAre(std::pair("1.jpg", "cat"), std::pair("sub/2.jpg", "dog")));
  EXPECT_EQ(refusal(flat("label,filename\ncat,1.jpg\n", "")),
            "truth: line 2: cat,1.jpg has the file name behind the class, want FILE NAME,CLASS");
}

TEST_F(Folders, ANameThatTwoImagesShareWithoutTheirEndingIsNoneOfThem) {
  images({"a.jpg", "a.jpeg"});
  const auto classes = class_of_image(read_annotations(flat("a.jpg,owl\na,cat\n", "")));
  EXPECT_EQ(classes, (std::map<std::string, std::string>{{"a.jpg", "owl"}, {"a", "cat"}}));
}

TEST(PackFolders, KeepsImagesAndTellsEachItsClass) {
  const TestFolder folder;
  const SmallFolders folders{folder.path()};
  folders.write();
  const PackResult result = pack(folders.options("set"));
  EXPECT_EQ(result.manifest.task, Task::kClassification);
  EXPECT_EQ(result.manifest.label_counts, (std::vector<std::int64_t>{12, 9, 0}));
  EXPECT_EQ(result.manifest.counts, (ManifestCounts{.images = 21}));
  const ReadAnnotations read = read_annotations(folders.options("").annotation_source());
  const ShardSet set(folder / "set");
  EXPECT_GT(set.manifest().shards.size(), 2U);
  for (std::size_t i = 0; i < set.index().size(); ++i) {
    const Record record = set.read(i);
    const auto image = static_cast<std::size_t>(record.image_id - 1);
    EXPECT_EQ(record.label, read.image_labels.at(image));
    EXPECT_EQ(record.image, read_file(folder / "images/" + read.instances.images[image].file_name));
  }
}

TEST(PackFolders, SplitsByNameAndKeepsTheClasses) {
  const TestFolder folder;
  const SmallFolders folders{folder.path()};
  folders.write();
  PackOptions options = folders.options("set");
  options.split = 0.6;
  std::int64_t images = 0;
  const ReadAnnotations read = read_annotations(options.annotation_source());
  for (const PackOptions& part : options.sets()) {
    const PackResult result = pack(part);
    images += result.manifest.counts.images;
    EXPECT_EQ(result.manifest.class_count(), 3);
    const ShardSet set(part.output);
    for (std::size_t i = 0; i < set.index().size(); ++i) {
      const Record record = set.read(i);
      EXPECT_EQ(record.label, read.image_labels.at(static_cast<std::size_t>(record.image_id - 1)));
    }
  }
  EXPECT_EQ(images, 21);
}

TEST(PackFolders, RefusesAnOutputAmongTheClasses) {
  const TestFolder folder;
  const SmallFolders folders{folder.path()};
  folders.write();
  for (const char* output : {"images/set", "images", "images/cat/../set/deep"}) {
    EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { pack(folders.options(output)); }),
                HasSubstr("lies in the images' folder"));
  }
  pack(folders.options("images-of-mine"));
}

TEST(PackFolders, AnotherImageIsAnotherSet) {
  const TestFolder folder;
  const SmallFolders folders{folder.path()};
  folders.write();
  pack(folders.options("set"));
  EXPECT_TRUE(pack(folders.options("set")).was_finished);
  write_file_atomically(folder / "images/empty/1.jpg", noisy_jpeg(9, 9, 5));
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { pack(folders.options("set")); }),
              HasSubstr("annotations"));
  fs::rename(folder / "images/empty/1.jpg", folder / "1.jpg");
  fs::rename(folder / "images/cat/1.jpg", folder / "images/dog/x1.jpg");
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { pack(folders.options("set")); }),
              HasSubstr("annotations"))
      << "the same image under another class";
  fs::rename(folder / "images/dog/x1.jpg", folder / "images/cat/1.jpg");
  EXPECT_TRUE(pack(folders.options("set")).was_finished);
  write_file_atomically(folder / "images/cat/1.jpg", noisy_jpeg(9, 9, 5));
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { pack(folders.options("set")); }),
              HasSubstr("cat/1.jpg is now a different image"));
}

}  // namespace
}  // namespace retina
