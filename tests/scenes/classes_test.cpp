// The classification demo's data set keeps its own promises.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "tests/support/classes/class_image.h"
#include "tests/support/classes/class_set.h"
#include "tests/support/test_folder.h"

namespace retina::classes {
namespace {

constexpr std::size_t kRecordBytes = 3073;

// Files below `folder` by their relative names.
std::set<std::string> files_of(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.insert(std::filesystem::relative(entry, folder).string());
  }
  return names;
}

TEST(WriteClassSet, WritesTheFilesOfCifar10) {
  const TestFolder folder;
  const ClassSetOptions options{.output = folder.path(), .train_count = 33, .validation_count = 12};
  EXPECT_TRUE(write_class_set(options));
  EXPECT_FALSE(write_class_set(options));  // it is there
  EXPECT_EQ(read_file(folder / "batches.meta.txt"),
            "disc\nsquare\ntriangle\nstar\nring\ncross\nhexagon\ncrescent\nbowl\narrow\n");
  std::string records;
  std::vector<std::size_t> counts;
  for (int batch = 1; batch <= 5; ++batch) {
    const std::string bytes = read_file(folder / cat("data_batch_", batch, ".bin"));
    counts.push_back(bytes.size() / kRecordBytes);
    records += bytes;
  }
  EXPECT_EQ(counts, (std::vector<std::size_t>{6, 7, 6, 7, 7}));
  records += read_file(folder / "test_batch.bin");
  ASSERT_EQ(records.size(), 45 * kRecordBytes);
  // The label, then the planes: red, green, blue, rows top to bottom.
  for (std::uint32_t number = 0; number < 45; ++number) {
    const std::string record = records.substr(number * kRecordBytes, kRecordBytes);
    const Image image = make_class_image(1, number, 32).image;
    ASSERT_EQ(record[0], static_cast<char>(number % 10));
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        for (int channel = 0; channel < 3; ++channel) {
          const auto place = static_cast<std::size_t>(1 + channel * 1024 + y * 32 + x);
          ASSERT_EQ(static_cast<std::uint8_t>(record[place]), image.pixel(x, y)[channel]);
        }
      }
    }
  }
}

TEST(WriteClassSet, GivesTheSameBytesOnAnyNumberOfThreads) {
  for (const ClassLayout layout : {ClassLayout::kCifar10, ClassLayout::kFolders}) {
    const TestFolder one, three;
    ClassSetOptions options{.output = one.path(),
                            .layout = layout,
                            .train_count = 30,
                            .validation_count = 10,
                            .threads = 1};
    write_class_set(options);
    options.output = three.path();
    options.threads = 3;
    write_class_set(options);
    const std::set<std::string> files = files_of(one.path());
    EXPECT_EQ(files.size(), layout == ClassLayout::kCifar10 ? 8U : 41U);
    for (const std::string& name : files) {
      EXPECT_EQ(read_file(one / name), read_file(three / name)) << name;
    }
  }
}

TEST(WriteClassSet, RefusesWhatTheLayoutDoesNotHave) {
  const TestFolder folder;
  const auto kind_of = [](const ClassSetOptions& options) {
    try {
      write_class_set(options);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  const std::string path = folder.path();
  EXPECT_EQ(kind_of({.output = path, .side_px = 64}), ErrorKind::kUsage);
  EXPECT_EQ(kind_of({.output = path, .layout = ClassLayout::kFolders, .side_px = 8}),
            ErrorKind::kUsage);
  EXPECT_EQ(kind_of({.output = path, .train_count = 9}), ErrorKind::kUsage);
  EXPECT_TRUE(files_of(path).empty());
}

}  // namespace
}  // namespace retina::classes
