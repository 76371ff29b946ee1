// Small data sets for classification: class folders, a flat folder, CIFAR-10's batches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "preprocess/formats/annotation_source.h"
#include "preprocess/options.h"

namespace retina {

// A JPEG of noise.
std::string noisy_jpeg(int width, int height, std::uint64_t seed);

// FOLDER/images/CLASS/...: "cat" with 12 images, one of them two folders down, "dog" with 9,
// "empty" with none. Sizes vary.
struct SmallFolders {
  std::string folder{};

  void write() const;
  // Options that pack it into FOLDER/NAME in small shards.
  PackOptions options(const std::string& name) const;
};

// The pixel value of image `record` of a batch made with `seed`; channel 0 is red.
std::uint8_t cifar10_pixel(std::uint64_t seed, std::size_t record, int channel, int y, int x);
// Labels are 0, 1, ... 9, 0, ...
std::string cifar10_batch(std::uint64_t seed, std::size_t record_count);

// FOLDER/cifar: two training batches of 30 images and a test batch of 10.
struct SmallCifar10 {
  std::string folder{};

  void write() const;
  PackOptions options(const std::string& name) const;
};

// A message that names no file by the path of the test's folder.
std::string without_folder(std::string message, const std::string& folder);

// Of its categories, in their order.
std::vector<std::string> class_names(const ReadAnnotations& read);

}  // namespace retina
