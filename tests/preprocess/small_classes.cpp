#include "tests/preprocess/small_classes.h"

#include <filesystem>

#include "shared/base/cat.h"
#include "shared/image/jpeg.h"
#include "shared/numeric/random.h"
#include "tests/preprocess/small_coco.h"

namespace retina {
namespace {

PackOptions small_shards(const std::string& output) {
  return {.output = output, .shard_size_bytes = 64 << 10, .threads = 2};
}

}  // namespace

std::string noisy_jpeg(int width, int height, std::uint64_t seed) {
  const RandomStream random{.seed = seed, .use = RandomUse::kTest};
  Image image(width, height);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] = static_cast<std::uint8_t>(random.bits(i));
  }
  return encode_jpeg(image, 90);
}

void SmallFolders::write() const {
  const std::string images = folder + "/images";
  std::filesystem::create_directories(images + "/empty");
  std::uint64_t seed = 0;
  const auto add = [&](const std::string& name) {
    ++seed;
    write_plain(images + "/" + name, noisy_jpeg(60 + static_cast<int>(seed) * 3, 70, seed));
  };
  for (int i = 0; i < 9; ++i) add(cat("dog/", i, ".JPEG"));
  for (int i = 0; i < 11; ++i) add(cat("cat/", i, ".jpg"));
  add("cat/more/of them/x.Jpg");
}

PackOptions SmallFolders::options(const std::string& name) const {
  PackOptions options = small_shards(folder + "/" + name);
  options.format = AnnotationFormat::kFolders;
  options.images = folder + "/images";
  return options;
}

std::uint8_t cifar10_pixel(std::uint64_t seed, std::size_t record, int channel, int y, int x) {
  const RandomStream random{.seed = seed, .use = RandomUse::kTest};
  const std::uint64_t place = (record * 3 + static_cast<std::uint64_t>(channel)) * 1024 +
                              static_cast<std::uint64_t>(32 * y + x);
  return static_cast<std::uint8_t>(random.bits(place));
}

std::string cifar10_batch(std::uint64_t seed, std::size_t record_count) {
  std::string bytes;
  for (std::size_t record = 0; record < record_count; ++record) {
    bytes.push_back(static_cast<char>(record % 10));
    for (int channel = 0; channel < 3; ++channel) {
      for (int y = 0; y < 32; ++y) {
        for (int x = 0; x < 32; ++x) {
          bytes.push_back(static_cast<char>(cifar10_pixel(seed, record, channel, y, x)));
        }
      }
    }
  }
  return bytes;
}

void SmallCifar10::write() const {
  write_plain(folder + "/cifar/data_batch_1.bin", cifar10_batch(1, 30));
  write_plain(folder + "/cifar/data_batch_2.bin", cifar10_batch(2, 30));
  write_plain(folder + "/cifar/test_batch.bin", cifar10_batch(3, 10));
}

PackOptions SmallCifar10::options(const std::string& name) const {
  PackOptions options = small_shards(folder + "/" + name);
  options.format = AnnotationFormat::kCifar10;
  options.images = folder + "/cifar";
  return options;
}

std::string without_folder(std::string message, const std::string& folder) {
  const std::string prefix = folder + "/";
  for (std::size_t at; (at = message.find(prefix)) != std::string::npos;) {
    message.erase(at, prefix.size());
  }
  return message;
}

std::vector<std::string> class_names(const ReadAnnotations& read) {
  std::vector<std::string> names;
  for (const Category& one : read.instances.categories) names.push_back(one.name);
  return names;
}

}  // namespace retina
