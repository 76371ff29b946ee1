// Writes the classification demo's data set: as the binary version of CIFAR-10, or as a folder of
// JPEGs for each class.
#pragma once

#include <cstdint>
#include <string>

namespace retina::classes {

// kCifar10: data_batch_{1..5}.bin, test_batch.bin and batches.meta.txt; a record is the label's
// byte and the red, green and blue plane of 32 x 32 pixels. kFolders: {train,val}/CLASS/NUMBER.jpg.
enum class ClassLayout : std::uint8_t { kCifar10, kFolders };

struct ClassSetOptions {
  std::string output{};
  ClassLayout layout = ClassLayout::kCifar10;
  std::uint64_t seed = 1;
  int train_count = 10000, validation_count = 2000;  // images
  int side_px = 32;                                  // 32 for kCifar10
  int threads = 0;                                   // 0: one a core
};

// Returns false when `output` already holds this very set. Throws kUsage, kCannotCreate, kIo.
bool write_class_set(const ClassSetOptions& options);

}  // namespace retina::classes
