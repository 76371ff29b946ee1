// Formats for classification: what becomes a class, a label and a picture, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "preprocess/formats/cifar10.h"
#include "preprocess/pack_journal.h"
#include "preprocess/packer.h"
#include "preprocess/source_images.h"
#include "preprocess/verify.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/random.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_classes.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/pictures/pictures.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

std::vector<std::string> class_names(const ReadAnnotations& read) {
  std::vector<std::string> names;
  for (const Category& one : read.instances.categories) names.push_back(one.name);
  return names;
}

// "cat/1.jpg" -> "cat".
std::map<std::string, std::string> class_of_picture(const ReadAnnotations& read) {
  std::map<std::string, std::string> classes;
  for (std::size_t i = 0; i < read.instances.images.size(); ++i) {
    classes[read.instances.images[i].file_name] =
        read.instances.categories[static_cast<std::size_t>(read.image_labels.at(i))].name;
  }
  return classes;
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <class Body>
std::string message_of(ErrorKind kind, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

class Folders : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write_file_atomically(folder_ / name, bytes);
  }
  AnnotationSource source() const {
    return {.format = AnnotationFormat::kFolders, .images = folder_ / "images"};
  }
  // A flat folder with these classes.
  AnnotationSource flat(const std::string& annotations, const std::string& classes) const {
    AnnotationSource flat = source();
    write("truth", annotations);
    flat.path = folder_ / "truth";
    if (classes.empty()) return flat;
    write("classes", classes);
    flat.classes = folder_ / "classes";
    return flat;
  }
  std::string refusal(const AnnotationSource& source, ErrorKind kind = ErrorKind::kData) const {
    std::string message = message_of(kind, [&] { read_annotations(source); });
    // Without the folder's path.
    for (std::size_t at; (at = message.find(folder_.path() + "/")) != std::string::npos;) {
      message.erase(at, folder_.path().size() + 1);
    }
    return message;
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
  EXPECT_EQ(read.instances.images[0].id, 1);
  EXPECT_EQ(read.instances.images[0].file_name, "10/1.jpg");
}

TEST_F(Folders, HoldPicturesAtAnyDepth) {
  SmallFolders{folder_.path()}.write();
  const ReadAnnotations read = read_annotations(source());
  EXPECT_THAT(class_names(read), ElementsAre("cat", "dog", "empty"));
  EXPECT_EQ(read.image_labels.size(), 21U);
  EXPECT_EQ(class_of_picture(read).at("cat/more/of them/x.Jpg"), "cat");
  EXPECT_TRUE(read.instances.annotations.empty());
}

TEST_F(Folders, WhatIsLeftOutIsTold) {
  SmallFolders{folder_.path()}.write();
  for (const char* name : {"cat/1.png", "cat/2.WebP", "dog/notes.txt", "dog/Makefile", "top.jpg"}) {
    write(std::string("images/") + name, "");
  }
  const std::string log = log_of(source());
  EXPECT_THAT(log, HasSubstr("images: 4 files are left out, not named as JPEGs (without an ending "
                             "1, .png 1, .txt 1, .webp 1); --convert takes .png and .webp, too\n"));
  EXPECT_THAT(log,
              HasSubstr("images: 1 picture is left out, outside every class folder (top.jpg)"));
  EXPECT_THAT(log, HasSubstr("images: 1 class has no pictures (empty)"));
  AnnotationSource converting = source();
  converting.convert = true;
  EXPECT_THAT(log_of(converting), HasSubstr("images: 2 files are left out, not named as pictures "
                                            "(without an ending 1, .txt 1)\n"));
  EXPECT_EQ(read_annotations(converting).image_labels.size(), 23U);
}

TEST_F(Folders, TakeTheOrderOfAListOfClasses) {
  SmallFolders{folder_.path()}.write();
  AnnotationSource listed = source();
  listed.classes = folder_ / "classes";
  write("classes", "  bird\nempty\r\n\ndog \ncat");
  const ReadAnnotations read = read_annotations(listed);
  EXPECT_THAT(class_names(read), ElementsAre("bird", "empty", "dog", "cat"));
  EXPECT_EQ(class_of_picture(read).at("cat/1.jpg"), "cat");
  EXPECT_THAT(log_of(listed), HasSubstr("2 classes have no pictures (bird, empty)"));
  write("classes", "dog\nempty\n");
  EXPECT_EQ(refusal(listed), "images/cat: is not a class of classes");
  write("classes", "dog\ncat\ndog\n");
  EXPECT_EQ(refusal(listed), "classes: line 3: class \"dog\" is that of line 1, too");
  write("classes", "\n\n");
  EXPECT_EQ(refusal(listed), "classes: has no classes (want a class name a line)");
}

// synset_words.txt, LOC_synset_mapping.txt and the devkit's map_clsloc.txt.
TEST_F(Folders, OfALineWithAWordNetIdTheClassIsTheId) {
  write("images/n01440764/1.jpg", "");
  write("images/n02119789/1.jpg", "");
  AnnotationSource listed = source();
  listed.classes = folder_ / "classes";
  for (const char* lines : {"n02119789 kit fox, Vulpes macrotis\nn01440764 tench, Tinca tinca\n",
                            "n02119789 1 kit_fox\nn01440764 2 tench\n", "n02119789\nn01440764\n"}) {
    write("classes", lines);
    EXPECT_THAT(class_names(read_annotations(listed)), ElementsAre("n02119789", "n01440764"));
  }
}

TEST_F(Folders, WithoutPicturesOrClassesAreRefused) {
  write("images/x.jpg", "");
  EXPECT_EQ(refusal(source()), "images: has no folders (want one of pictures for each class)");
  fs::create_directories(folder_ / "images/cat");
  EXPECT_EQ(refusal(source()), "images: has no pictures in its class folders (want .jpg or .jpeg)");
}

TEST_F(Folders, FlatOnesTakeAClassIdForEachNameInOrder) {
  for (const char* name : {"val_2.JPEG", "val_10.JPEG", "val_1.JPEG"}) {
    write(std::string("images/") + name, "");
  }
  const ReadAnnotations read = read_annotations(flat("2\r\n1\n 2\n\n", "owl\ncat\n"));
  EXPECT_EQ(class_of_picture(read),
            (std::map<std::string, std::string>{
                {"val_1.JPEG", "cat"}, {"val_10.JPEG", "owl"}, {"val_2.JPEG", "cat"}}));
  EXPECT_EQ(refusal(flat("1\n2\n3\n", "owl\ncat\n")),
            "truth: line 3: class id: got 3, want 1..2, a class of classes");
  EXPECT_EQ(refusal(flat("0\n1\n1\n", "owl\ncat\n")),
            "truth: line 1: class id: got 0, want 1..2, a class of classes");
  EXPECT_EQ(refusal(flat("99999999999999999999999\n1\n1\n", "owl\ncat\n")),
            "truth: line 1: class id: got 99999999999999999999999, want 1..2, a class of classes");
  EXPECT_EQ(refusal(flat("1\n1\n", "owl\ncat\n")),
            "truth: has not one class id for each picture (got 2 ids, 3 pictures in images)");
  EXPECT_EQ(refusal(flat("1\n1\n1\n", ""), ErrorKind::kConfig),
            "truth: lists class ids, which needs --classes");
}

TEST_F(Folders, IdsWithClassesInTheOrderOfWordNetAreWarnedOf) {
  write("images/1.jpg", "");
  write("images/2.jpg", "");
  EXPECT_THAT(log_of(flat("1\n2\n", "n01440764 tench\nn02119789 kit fox\n")),
              HasSubstr("count in the order of its map_clsloc.txt; if"));
  EXPECT_THAT(log_of(flat("1\n2\n", "n02119789 1 kit_fox\nn01440764 2 tench\n")), "");
}

TEST_F(Folders, FlatOnesTakeLinesOfNameAndClass) {
  for (const char* name : {"a.jpg", "sub/b.jpeg", "c, d.jpg", "unlisted.jpg"}) {
    write(std::string("images/") + name, "");
  }
  const AnnotationSource truth =
      flat("sub/b.jpeg,owl\n\"c, d.jpg\", cat \na.jpg,owl\ngone.jpg,cat\n", "");
  const ReadAnnotations read = read_annotations(truth);
  EXPECT_THAT(class_names(read), ElementsAre("cat", "owl"));
  EXPECT_EQ(
      class_of_picture(read),
      (std::map<std::string, std::string>{
          {"a.jpg", "owl"}, {"c, d.jpg", "cat"}, {"gone.jpg", "cat"}, {"sub/b.jpeg", "owl"}}));
  EXPECT_THAT(log_of(truth), HasSubstr("1 picture is left out, not in "));
  EXPECT_THAT(class_names(read_annotations(flat("a.jpg,owl\n", "owl\nbat\n"))),
              ElementsAre("owl", "bat"));
  EXPECT_EQ(refusal(flat("a.jpg,owl\na.jpg,cat\n", "")),
            "truth: line 2: a.jpg is the picture of line 1, too");
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
  write("images/ILSVRC2012_val_00000001.JPEG", "");
  write("images/ILSVRC2012_val_00000002.JPEG", "");
  const AnnotationSource truth = flat(
      "ImageId,PredictionString\nILSVRC2012_val_00000002,n03995372 85 1 499 272 \n"
      "ILSVRC2012_val_00000001,n01440764 1 2 3 4 n01440764 5 6 7 8 \n",
      "");
  EXPECT_EQ(class_of_picture(read_annotations(truth)),
            (std::map<std::string, std::string>{{"ILSVRC2012_val_00000001.JPEG", "n01440764"},
                                                {"ILSVRC2012_val_00000002.JPEG", "n03995372"}}));
  EXPECT_THAT(log_of(truth), HasSubstr("line 1 is taken as the columns' names"));
}

TEST_F(Folders, ANameThatTwoPicturesShareWithoutTheirEndingIsNoneOfThem) {
  write("images/a.jpg", "");
  write("images/a.jpeg", "");
  const auto classes = class_of_picture(read_annotations(flat("a.jpg,owl\na,cat\n", "")));
  EXPECT_EQ(classes, (std::map<std::string, std::string>{{"a.jpg", "owl"}, {"a", "cat"}}));
}

TEST(PackFolders, KeepsPicturesAndTellsEachItsClass) {
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
    EXPECT_EQ(record.picture,
              read_file(folder / "images/" + read.instances.images[image].file_name));
  }
}

TEST(PackFolders, APictureMayHaveAnySizeAndBadOnesGoToQuarantine) {
  const TestFolder folder;
  const SmallFolders folders{folder.path()};
  folders.write();
  const std::string jpeg = noisy_jpeg(40, 30, 99);
  write_file_atomically(folder / "images/dog/cut.jpg", jpeg.substr(0, jpeg.size() / 2));
  write_file_atomically(folder / "images/dog/png.jpg", encode_png(colourful(30, 20)));
  fs::create_symlink("nowhere", folder / "images/dog/link.jpg");
  EXPECT_EQ(pack(folders.options("set")).manifest.counts.quarantined, 3);
  std::map<std::string, std::string> kinds;
  for (const QuarantinedImage& bad : ShardSet(folder / "set").read_quarantine()) {
    kinds[bad.file_name] = bad.kind;
  }
  EXPECT_EQ(kinds, (std::map<std::string, std::string>{{"dog/cut.jpg", "damaged"},
                                                       {"dog/png.jpg", "format"},
                                                       {"dog/link.jpg", "missing"}}));
  PackOptions converting = folders.options("converted");
  converting.convert = true;
  EXPECT_EQ(pack(converting).manifest.counts.quarantined, 2);
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
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { pack(folders.options(output)); }),
                HasSubstr("lies in the pictures' folder"));
  }
  pack(folders.options("images-of-mine"));
}

TEST(PackFolders, AnotherPictureIsAnotherSet) {
  const TestFolder folder;
  const SmallFolders folders{folder.path()};
  folders.write();
  pack(folders.options("set"));
  EXPECT_TRUE(pack(folders.options("set")).was_finished);
  write_file_atomically(folder / "images/empty/1.jpg", noisy_jpeg(9, 9, 5));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { pack(folders.options("set")); }),
              HasSubstr("annotations"));
  fs::rename(folder / "images/empty/1.jpg", folder / "1.jpg");
  fs::rename(folder / "images/cat/1.jpg", folder / "images/dog/x1.jpg");
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { pack(folders.options("set")); }),
              HasSubstr("annotations"))
      << "the same picture under another class";
  fs::rename(folder / "images/dog/x1.jpg", folder / "images/cat/1.jpg");
  EXPECT_TRUE(pack(folders.options("set")).was_finished);
  write_file_atomically(folder / "images/cat/1.jpg", noisy_jpeg(9, 9, 5));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { pack(folders.options("set")); }),
              HasSubstr("cat/1.jpg is a different picture now"));
}

class Cifar10 : public testing::Test {
 protected:
  Cifar10() { cifar_.write(); }

  std::string refusal(const PackOptions& options, ErrorKind kind = ErrorKind::kData) const {
    std::string message = message_of(kind, [&] { read_annotations(options.annotation_source()); });
    for (std::size_t at; (at = message.find(folder_.path() + "/")) != std::string::npos;) {
      message.erase(at, folder_.path().size() + 1);
    }
    return message;
  }
  std::string path(const std::string& name) const { return folder_ / ("cifar/" + name); }

  TestFolder folder_;
  SmallCifar10 cifar_{folder_.path()};
};

TEST_F(Cifar10, TheTrainingBatchesOfAFolderArePackedWithTheirPixels) {
  CaptureStderr();
  const PackResult result = pack(cifar_.options("set"));
  EXPECT_THAT(GetCapturedStderr(),
              HasSubstr(cat("packing data_batch_1.bin, data_batch_2.bin; the test pictures are a "
                            "set of their own: --images ",
                            path("test_batch.bin"))));
  EXPECT_EQ(result.manifest.task, Task::kClassification);
  EXPECT_EQ(result.manifest.counts, (ManifestCounts{.images = 60}));
  EXPECT_EQ(result.manifest.label_counts, std::vector<std::int64_t>(10, 6));
  EXPECT_EQ(result.manifest.categories[9].name, "truck");
  const ShardSet set(folder_ / "set");
  for (std::size_t i = 0; i < set.index().size(); ++i) {
    const Record record = set.read(i);
    const auto image = static_cast<std::size_t>(record.image_id - 1);
    ASSERT_EQ(record.encoding, PictureEncoding::kRaw);
    ASSERT_EQ(record.width, 32);
    ASSERT_EQ(record.height, 32);
    EXPECT_FALSE(record.converted);
    EXPECT_EQ(record.label, static_cast<int>(image % 30 % 10));
    for (int place = 0; place < 3 * 1024; ++place) {
      const int channel = place % 3, x = place / 3 % 32, y = place / 96;
      ASSERT_EQ(static_cast<std::uint8_t>(record.picture[static_cast<std::size_t>(place)]),
                cifar10_pixel(1 + image / 30, image % 30, channel, y, x));
    }
  }
}

TEST_F(Cifar10, AnyBatchFileIsASetOfItsOwn) {
  PackOptions options = cifar_.options("test");
  options.images = path("test_batch.bin");
  EXPECT_EQ(pack(options).manifest.counts.images, 10);
  EXPECT_TRUE(pack(options).was_finished);
  fs::rename(path("test_batch.bin"), path("mine"));
  options.images = path("mine");
  options.output = folder_ / "mine";
  EXPECT_EQ(pack(options).manifest.counts.images, 10);
}

TEST_F(Cifar10, ClassNamesAreThoseBesideTheBatches) {
  write_file_atomically(path("batches.meta.txt"), "a\nb\nc\nd\r\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_THAT(class_names(read_annotations(cifar_.options("").annotation_source())),
              ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
  write_file_atomically(path("batches.meta.txt"), "a\nb\na\n");
  EXPECT_EQ(refusal(cifar_.options("")),
            "cifar/batches.meta.txt: line 3: class \"a\" is there twice");
  write_file_atomically(path("batches.meta.txt"), "a\nb\n");
  EXPECT_EQ(refusal(cifar_.options("")),
            "cifar/batches.meta.txt: has another number of class names (got 2, want 10)");
}

TEST_F(Cifar10, WhatIsNoBatchIsRefusedByRecord) {
  std::string batch = cifar10_batch(2, 30);
  batch[17 * 3073] = 10;
  write_file_atomically(path("data_batch_2.bin"), batch);
  EXPECT_EQ(refusal(cifar_.options("")),
            "cifar/data_batch_2.bin: record 17: the label is out of range (got 10, want 0..9)");
  batch[17 * 3073] = '\xFF';
  write_file_atomically(path("data_batch_2.bin"), batch);
  EXPECT_THAT(refusal(cifar_.options("")), HasSubstr("got 255, want 0..9"));
  write_file_atomically(path("data_batch_2.bin"), cifar10_batch(2, 30).substr(0, 30 * 3073 - 1));
  EXPECT_EQ(refusal(cifar_.options("")),
            "cifar/data_batch_2.bin: is not a whole number of records (got 92189 bytes, want a "
            "multiple of 3073)");
  fs::remove(path("data_batch_1.bin"));
  fs::remove(path("data_batch_2.bin"));
  EXPECT_EQ(refusal(cifar_.options(""), ErrorKind::kNoInput),
            "cifar: has no training batches (want data_batch_1.bin, ...)");
  PackOptions options = cifar_.options("");
  options.images = path("test_batch.bin");
  write_file_atomically(path("test_batch.bin"), "");
  EXPECT_EQ(refusal(options), "cifar/test_batch.bin: the data set is empty (it lists no images)");
}

// More records than are read at a time.
TEST_F(Cifar10, BatchesHaveAnyNumberOfRecords) {
  PackOptions options = cifar_.options("");
  options.images = path("long.bin");
  std::string batch = cifar10_batch(7, 1);
  std::string all;
  for (int i = 0; i < 1300; ++i) all += batch;
  all[1299 * 3073] = 7;
  write_file_atomically(path("long.bin"), all);
  const ReadAnnotations read = read_annotations(options.annotation_source());
  ASSERT_EQ(read.image_labels.size(), 1300U);
  EXPECT_EQ(read.image_labels.back(), 7);
  EXPECT_EQ(read.instances.images.back().file_name, "long.bin:1299");
  all[600 * 3073] = 11;
  write_file_atomically(path("long.bin"), all);
  EXPECT_THAT(refusal(options), HasSubstr("record 600: "));
}

TEST_F(Cifar10, OtherPixelsOrLabelsAreAnotherSet) {
  pack(cifar_.options("set"));
  for (const std::size_t at : {std::size_t{3073}, std::size_t{5000}}) {
    std::string batch = cifar10_batch(1, 30);
    batch[at] = static_cast<char>(batch[at] == 3 ? 4 : 3);
    write_file_atomically(path("data_batch_1.bin"), batch);
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { pack(cifar_.options("set")); }),
                HasSubstr("annotations"))
        << at;
  }
  cifar_.write();
  EXPECT_TRUE(pack(cifar_.options("set")).was_finished);
}

TEST_F(Cifar10, OptionsWithoutEffectAreRefused) {
  const auto problem = [&](const auto& change) {
    PackOptions options = cifar_.options("set");
    change(options);
    return message_of(ErrorKind::kUsage, [&] { options.validate(); });
  };
  cifar_.options("set").validate();
  EXPECT_THAT(problem([](PackOptions& o) { o.convert = true; }), HasSubstr("--convert: has no"));
  EXPECT_THAT(problem([](PackOptions& o) { o.max_side_px = 9; }), HasSubstr("--max-side: has no"));
  EXPECT_THAT(problem([](PackOptions& o) { o.quality = 9; }), HasSubstr("--quality: has no"));
  EXPECT_THAT(problem([](PackOptions& o) { o.exif = ExifPolicy::kApply; }), HasSubstr("--exif"));
  EXPECT_THAT(problem([](PackOptions& o) { o.check = PictureCheck::kHeader; }),
              HasSubstr("--check"));
  EXPECT_THAT(problem([](PackOptions& o) { o.annotations = "x"; }), HasSubstr("--annotations"));
  EXPECT_THAT(problem([](PackOptions& o) { o.classes = "x"; }), HasSubstr("--classes"));
}

// Packed before: whole in FOLDER/whole, interrupted after some shards in FOLDER/set.
class PackedClasses : public testing::TestWithParam<AnnotationFormat> {
 protected:
  PackedClasses() {
    SmallFolders{folder_.path()}.write();
    SmallCifar10{folder_.path()}.write();
    pack(options("whole"));
    whole_ = folder_content(folder_ / "whole");
  }

  PackOptions options(const std::string& name) const {
    return GetParam() == AnnotationFormat::kFolders ? SmallFolders{folder_.path()}.options(name)
                                                    : SmallCifar10{folder_.path()}.options(name);
  }

  void interrupt_after(std::size_t shards) const {
    fs::remove_all(folder_ / "set");
    make_folder(folder_ / "set");
    const ShardSet set(folder_ / "whole");
    const PackJournal journal(folder_ / "set", identity_of(set.manifest()), false);
    const ReadAnnotations read = read_annotations(options("").annotation_source());
    const SourceImages images(options("").images_folder(), GetParam());
    std::size_t next_image = 0;
    for (std::size_t shard = 0; shard < shards; ++shard) {
      FinishedShard note{.shard = set.manifest().shards[shard]};
      fs::copy_file(folder_ / "whole/" + note.shard.file.name,
                    journal_shard_path(folder_ / "set", shard));
      for (std::int64_t place = 0; place < note.shard.record_count; ++place, ++next_image) {
        const auto image = static_cast<std::size_t>(set.index()[next_image].image_id - 1);
        SourcePicture picture;
        ASSERT_FALSE(images.read(read.instances.images[image].file_name, picture));
        note.sources.push_back(picture.file);
      }
      note.next_image = next_image;
      note.shard.file.name.clear();
      journal.add(shard, note);
    }
  }

  // The file that holds the first picture of the set.
  std::string first_file() const {
    const auto image =
        static_cast<std::size_t>(ShardSet(folder_ / "whole").index()[0].image_id - 1);
    const std::string name =
        read_annotations(options("").annotation_source()).instances.images[image].file_name;
    return options("").images_folder() + "/" + name.substr(0, name.rfind(':'));
  }

  TestFolder folder_;
  std::map<std::string, std::string> whole_{};
};

TEST_P(PackedClasses, TheSameBytesWhateverTheThreads) {
  PackOptions other = options("set");
  other.threads = 7;
  pack(other);
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

TEST_P(PackedClasses, AnInterruptedRunReusesItsShardsAndGivesTheSameBytes) {
  for (const std::size_t shards : {std::size_t{1}, std::size_t{2}}) {
    interrupt_after(shards);
    EXPECT_EQ(pack(options("set")).reused_shards, shards);
    EXPECT_EQ(folder_content(folder_ / "set"), whole_);
  }
}

TEST_P(PackedClasses, CopiedFilesAreTheSamePictures) {
  interrupt_after(2);
  const std::string file = first_file(), content = read_file(file);
  fs::remove(file);
  write_file_atomically(file, content);
  fs::last_write_time(file, fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(pack(options("set")).reused_shards, 2U);
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

TEST_P(PackedClasses, VerifyFindsFlippedBitsAndCutFiles) {
  std::string problems;
  const auto problem_count = [&] {
    problems.clear();
    return verify_shards({.folder = folder_ / "whole",
                          .thread_count = 2,
                          .on_problem = [&](const auto& line) { problems += line + "\n"; }})
        .problem_count;
  };
  EXPECT_EQ(problem_count(), 0) << problems;
  const RandomStream random{.seed = 7, .use = RandomUse::kTest};
  std::uint64_t draw = 0;
  for (const auto& [name, bytes] : whole_) {
    if (name == ".lock" || name == "report.html") continue;
    const std::string path = folder_ / "whole/" + name;
    for (int i = 0; i < 12 && !bytes.empty(); ++i) {
      std::string damaged = bytes;
      const std::uint64_t bit = random.below(draw++, bytes.size() * 8);
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      write_bytes(path, damaged);
      EXPECT_GT(problem_count(), 0) << name << " bit " << bit;
      EXPECT_THAT(problems, HasSubstr(name));
    }
    for (const std::size_t size : {bytes.size() - 1, bytes.size() / 3}) {
      if (bytes.empty()) continue;
      write_bytes(path, bytes.substr(0, size));
      EXPECT_GT(problem_count(), 0) << name;
    }
    fs::remove(path);
    EXPECT_GT(problem_count(), 0) << name;
    write_bytes(path, bytes);
  }
  EXPECT_EQ(problem_count(), 0) << problems;
}

INSTANTIATE_TEST_SUITE_P(, PackedClasses,
                         testing::Values(AnnotationFormat::kFolders, AnnotationFormat::kCifar10),
                         [](const auto& format) {
                           return word_of(kAnnotationFormats, format.param);
                         });

// CIFAR-10's own files decide the identity; here the pictures alone have changed.
TEST(SourceImages, APartOfAFileIsComparedByItsContent) {
  const TestFolder folder;
  SmallCifar10{folder.path()}.write();
  const SourceImages images(folder / "cifar", AnnotationFormat::kCifar10);
  SourcePicture third, fourth;
  ASSERT_FALSE(images.read("data_batch_1.bin:3", third));
  ASSERT_FALSE(images.read("data_batch_1.bin:4", fourth));
  EXPECT_EQ(third.bytes.size(), 3072U);
  EXPECT_EQ(images.size_bytes("data_batch_1.bin:3"), 3072U);
  std::string batch = cifar10_batch(1, 30);
  batch[3 * 3073 + 100] = static_cast<char>(batch[3 * 3073 + 100] ^ 1);
  const std::string path = folder / "cifar/data_batch_1.bin";
  write_file_atomically(path, batch);
  fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(images.compare("data_batch_1.bin:3", third.file), FileMatch::kOther);
  EXPECT_EQ(images.compare("data_batch_1.bin:4", fourth.file), FileMatch::kSame);
  fs::resize_file(path, 4 * 3073 + 1000);
  fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::hours(2));
  EXPECT_EQ(images.compare("data_batch_1.bin:4", fourth.file), FileMatch::kOther);
  EXPECT_EQ(images.read("data_batch_1.bin:4", fourth)->kind, "damaged");
  fs::remove(path);
  EXPECT_EQ(images.compare("data_batch_1.bin:4", fourth.file), FileMatch::kMissing);
  EXPECT_EQ(images.read("data_batch_1.bin:4", fourth)->kind, "missing");
  EXPECT_EQ(images.read("../data_batch_1.bin:4", fourth)->kind, "name");
  fs::remove_all(folder / "cifar");
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { images.read("data_batch_1.bin:4", fourth); }),
              HasSubstr("the image folder is gone"));
}

TEST(Cifar10Place, IsTheOneThatThePicturesNameTells) {
  const auto place = cifar10_place(cifar10_picture_name("a:b.bin", 7));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->batch_file, "a:b.bin");
  EXPECT_EQ(place->offset_bytes, 7U * 3073 + 1);
  for (const char* name : {"", "a.bin", ":3", "a.bin:", "a.bin:-1", "a.bin:1x", "a.bin: 1",
                           "a.bin:99999999999999999999", "a.bin:18446744073709551615"}) {
    EXPECT_FALSE(cifar10_place(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace retina
