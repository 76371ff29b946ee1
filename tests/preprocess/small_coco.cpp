#include "tests/preprocess/small_coco.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "preprocess/packer.h"
#include "shared/base/file.h"
#include "shared/image/jpeg.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

Image noise(int width, int height, std::uint64_t seed) {
  const RandomStream random{.seed = seed, .use = RandomUse::kTest};
  Image image(width, height);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < image.rgb.size(); ++i, bits >>= 8) {
    if (i % 8 == 0) bits = random.bits(i);
    image.rgb[i] = static_cast<std::uint8_t>(bits);
  }
  return image;
}

void add_boxes(Instances& instances, const ImageInfo& image) {
  const RandomStream random{.seed = static_cast<std::uint64_t>(image.id)};
  for (int i = 0; i < image.id % 6; ++i) {
    const auto at = static_cast<std::uint64_t>(4 * i);
    const bool degenerate = image.id % 7 == 3 && i == 0;
    const double width = degenerate ? 0 : 2 + random.unit(at) * image.width / 2;
    const double height = 2 + random.unit(at + 1) * image.height / 2;
    instances.annotations.push_back(
        {.id = static_cast<std::int64_t>(1000 + instances.annotations.size()),
         .image_id = image.id,
         .category_id = i % 2 == 0 ? 17 : 3,
         .bbox = {random.unit(at + 2) * (image.width - width),
                  random.unit(at + 3) * (image.height - height), width, height},
         .area = width * height * 0.7,
         .iscrowd = image.id % 5 == 4 && i == 1});
  }
}

void write_bad_images(const std::string& images, Instances& instances) {
  const std::string jpeg = encode_jpeg(noise(50, 40, 99), 90);
  write_plain(images + "/cut.jpg", jpeg.substr(0, jpeg.size() / 2));
  write_plain(images + "/empty.jpg", "");
  write_plain(images + "/png.jpg", "\x89PNG\r\n\x1a\n and so on");
  write_plain(images + "/size.jpg", jpeg);
  write_plain(images + "/../outside.jpg", jpeg);
  std::filesystem::create_directories(images + "/folder.jpg");
  const auto add = [&](std::int64_t id, const char* name, int width) {
    instances.images.push_back({.id = id, .file_name = name, .width = width, .height = 40});
  };
  add(901, "cut.jpg", 50);
  add(902, "empty.jpg", 50);
  add(903, "png.jpg", 50);
  add(904, "size.jpg", 51);
  add(905, "../outside.jpg", 50);
  add(906, "folder.jpg", 50);
  add(907, "nowhere.jpg", 50);
}

}  // namespace

void write_plain(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

const std::map<std::int64_t, std::string>& bad_image_kinds() {
  static const std::map<std::int64_t, std::string> kinds = {
      {901, "damaged"}, {902, "damaged"}, {903, "format"}, {904, "size"},
      {905, "name"},    {906, "missing"}, {907, "missing"}};
  return kinds;
}

Instances SmallCoco::write() const {
  const std::string images = folder + "/images";
  std::filesystem::create_directories(images + "/a");
  std::filesystem::create_directories(images + "/b");
  Instances instances;
  instances.categories = {{.id = 17, .name = "cat", .supercategory = "animal"},
                          {.id = 3, .name = "car"},
                          {.id = 90, .name = "never seen"}};
  for (int i = 0; i < good_count; ++i) {
    const ImageInfo image{.id = i + 1,
                          .file_name = (i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".jpg",
                          .width = 40 + i * 13 % 90,
                          .height = 30 + i * 29 % 120};
    write_plain(
        images + "/" + image.file_name,
        encode_jpeg(noise(image.width, image.height, 1000 * seed + static_cast<std::uint64_t>(i)),
                    90));
    instances.images.push_back(image);
    add_boxes(instances, image);
  }
  if (with_bad_images) write_bad_images(images, instances);
  write_plain(folder + "/annotations.json", instances_to_json(instances));
  return instances;
}

PackOptions SmallCoco::options(const std::string& name) const {
  return {.annotations = folder + "/annotations.json",
          .images = folder + "/images",
          .output = folder + "/" + name,
          .shard_size_bytes = 100'000,
          .threads = 2};
}

std::string pack_refusal(const PackOptions& options, ErrorKind kind) {
  try {
    pack(options);
    return "packed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return cat(error.what(), "; ", error.hint());
  }
}

std::map<std::string, std::string> folder_content(const std::string& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    content[std::filesystem::relative(entry.path(), folder).string()] =
        read_file(entry.path().string());
  }
  return content;
}

}  // namespace retina
