#include "tests/support/classes/class_set.h"

#include <algorithm>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/parallel.h"
#include "shared/image/jpeg.h"
#include "tests/support/classes/class_image.h"

namespace retina::classes {
namespace {

constexpr int kCifar10SidePx = 32, kCifar10Batches = 5;
constexpr int kLeastSidePx = 16, kMostSidePx = 1024;

// Images first..end-1 of the set.
struct Numbers {
  int first = 0, end = 0;
  std::size_t count() const { return static_cast<std::size_t>(end - first); }
};

ClassImage image_at(const ClassSetOptions& options, const Numbers& numbers, std::size_t place) {
  return make_class_image(
      options.seed, static_cast<std::uint32_t>(numbers.first) + static_cast<std::uint32_t>(place),
      options.side_px);
}

std::string cifar10_record(const ClassImage& drawn) {
  std::string record(1, static_cast<char>(drawn.label));
  const std::vector<std::uint8_t>& rgb = drawn.image.rgb;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t i = channel; i < rgb.size(); i += 3) record += static_cast<char>(rgb[i]);
  }
  return record;
}

void write_batch(const ClassSetOptions& options, const std::string& name, const Numbers& numbers) {
  std::vector<std::string> records(numbers.count());
  for_each_parallel(records.size(), options.threads, [&](std::size_t place) {
    records[place] = cifar10_record(image_at(options, numbers, place));
  });
  std::string bytes;
  for (const std::string& record : records) bytes += record;
  write_file_atomically(cat(options.output, "/", name), bytes);
}

void write_cifar10(const ClassSetOptions& options) {
  std::string names;
  for (const std::string& name : image_class_names()) names += name + "\n";
  write_file_atomically(options.output + "/batches.meta.txt", names);
  const int train = options.train_count;
  const auto first_of = [&](int batch) {
    return static_cast<int>(std::int64_t{train} * batch / kCifar10Batches);
  };
  for (int batch = 0; batch < kCifar10Batches; ++batch) {
    write_batch(options, cat("data_batch_", batch + 1, ".bin"),
                {.first = first_of(batch), .end = first_of(batch + 1)});
  }
  write_batch(options, "test_batch.bin", {.first = train, .end = train + options.validation_count});
}

void write_folders(const ClassSetOptions& options, const std::string& split,
                   const Numbers& numbers) {
  const std::string root = cat(options.output, "/", split, "/");
  for (const std::string& name : image_class_names()) make_folder(root + name);
  for_each_parallel(numbers.count(), options.threads, [&](std::size_t place) {
    const ClassImage drawn = image_at(options, numbers, place);
    const std::string& name = image_class_names().at(static_cast<std::size_t>(drawn.label));
    const std::string digits = cat(1000000 + numbers.first + static_cast<int>(place)).substr(1);
    write_file_atomically(cat(root, name, "/", digits, ".jpg"),
                          encode_jpeg(drawn.image, drawn.quality));
  });
}

void check(const ClassSetOptions& options) {
  constexpr int kMostCount = 400000;
  if (std::min(options.train_count, options.validation_count) < kImageClassCount ||
      std::max(options.train_count, options.validation_count) > kMostCount) {
    throw Error(ErrorKind::kUsage,
                cat("counts of images: out of range (got ", options.train_count, " and ",
                    options.validation_count, ", want ", kImageClassCount, "..", kMostCount, ")"));
  }
  const bool is_cifar10 = options.layout == ClassLayout::kCifar10;
  const int least = is_cifar10 ? kCifar10SidePx : kLeastSidePx;
  const int most = is_cifar10 ? kCifar10SidePx : kMostSidePx;
  if (options.side_px < least || options.side_px > most) {
    throw Error(ErrorKind::kUsage,
                cat("--side: out of range (got ", options.side_px, ", want ",
                    is_cifar10 ? cat(most, ", CIFAR-10's size") : cat(least, "..", most), ")"),
                is_cifar10 ? "--layout folders has any size" : "");
  }
}

}  // namespace

bool write_class_set(const ClassSetOptions& options) {
  check(options);
  JsonWriter json;
  json.begin_object()
      .field("generator", 1)  // raised when the images change
      .field("layout", options.layout == ClassLayout::kCifar10 ? "cifar10" : "folders")
      .field("seed", options.seed)
      .field("train_count", options.train_count)
      .field("validation_count", options.validation_count)
      .field("side_px", options.side_px)
      .end_object();
  const std::string marker = options.output + "/classes.json", description = json.pretty_text();
  if (path_exists(marker) && read_file(marker) == description) return false;
  make_folder(options.output);
  remove_file(marker);
  if (options.layout == ClassLayout::kCifar10) {
    write_cifar10(options);
  } else {
    const int train = options.train_count;
    write_folders(options, "train", {.first = 0, .end = train});
    write_folders(options, "val", {.first = train, .end = train + options.validation_count});
  }
  write_file_atomically(marker, description);
  return true;
}

}  // namespace retina::classes
