// CIFAR-10's binary version: what becomes a class and an image, and what is refused.
#include "preprocess/formats/cifar10.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "preprocess/packer.h"
#include "preprocess/source_images.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_classes.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class Cifar10 : public testing::Test {
 protected:
  Cifar10() { cifar_.write(); }

  std::string refusal(const PackOptions& options, ErrorKind kind = ErrorKind::kData) const {
    return without_folder(refusal_of(kind, [&] { read_annotations(options.annotation_source()); }),
                          folder_.path());
  }
  std::string path(const std::string& name) const { return folder_ / ("cifar/" + name); }

  TestFolder folder_;
  SmallCifar10 cifar_{folder_.path()};
};

TEST_F(Cifar10, TheTrainingBatchesOfAFolderArePackedWithTheirPixels) {
  CaptureStderr();
  const PackResult result = pack(cifar_.options("set"));
  EXPECT_THAT(GetCapturedStderr(),
              HasSubstr(cat("packing data_batch_1.bin, data_batch_2.bin; the test images are a "
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
    ASSERT_EQ(record.encoding, ImageEncoding::kRaw);
    ASSERT_EQ(record.width, 32);
    ASSERT_EQ(record.height, 32);
    EXPECT_FALSE(record.converted);
    EXPECT_EQ(record.label, static_cast<int>(image % 30 % 10));
    for (int place = 0; place < 3 * 1024; ++place) {
      const int channel = place % 3, x = place / 3 % 32, y = place / 96;
      ASSERT_EQ(static_cast<std::uint8_t>(record.image[static_cast<std::size_t>(place)]),
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
  EXPECT_THAT(refusal(cifar_.options("")), HasSubstr("batches.meta.txt: line 3: class \"a\""));
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

TEST_F(Cifar10, OtherPixelsOrLabelsAreAnotherSet) {
  pack(cifar_.options("set"));
  for (const std::size_t at : {std::size_t{3073}, std::size_t{5000}}) {
    std::string batch = cifar10_batch(1, 30);
    batch[at] = static_cast<char>(batch[at] == 3 ? 4 : 3);
    write_file_atomically(path("data_batch_1.bin"), batch);
    EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { pack(cifar_.options("set")); }),
                HasSubstr("annotations"))
        << at;
  }
  cifar_.write();
  EXPECT_TRUE(pack(cifar_.options("set")).was_finished);
}

TEST(SourceImages, APartOfAFileIsAnImage) {
  const TestFolder folder;
  SmallCifar10{folder.path()}.write();
  const SourceImages images({.folder = folder / "cifar", .format = AnnotationFormat::kCifar10});
  SourceImage image;
  ASSERT_FALSE(images.read("data_batch_1.bin:4", image));
  EXPECT_EQ(image.bytes.size(), 3072U);
  EXPECT_EQ(images.size_bytes("data_batch_1.bin:4"), 3072U);
  const std::string path = folder / "cifar/data_batch_1.bin";
  fs::resize_file(path, 4 * 3073 + 1000);
  EXPECT_EQ(images.read("data_batch_1.bin:4", image)->kind, "damaged");
  fs::remove(path);
  EXPECT_EQ(images.read("data_batch_1.bin:4", image)->kind, "missing");
  EXPECT_EQ(images.read("../data_batch_1.bin:4", image)->kind, "name");
  fs::remove_all(folder / "cifar");
  EXPECT_THAT(refusal_of(ErrorKind::kIo, [&] { images.read("data_batch_1.bin:4", image); }),
              HasSubstr("the image folder is gone"));
}

TEST(Cifar10Place, IsTheOneThatTheImagesNameTells) {
  const auto place = cifar10_place(cifar10_image_name("a:b.bin", 7));
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
