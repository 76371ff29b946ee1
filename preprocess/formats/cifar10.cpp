#include "preprocess/formats/cifar10.h"

#include <filesystem>
#include <limits>
#include <set>

#include "preprocess/formats/annotation_files.h"
#include "preprocess/formats/class_names.h"
#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTestBatch = "test_batch.bin";
constexpr const char* kNamesFile = "batches.meta.txt";
constexpr std::size_t kClassCount = 10;
constexpr const char* kHint =
    "give --images the folder cifar-10-batches-bin of CIFAR-10's binary version";

// The data set's own, in the order of its labels.
std::vector<std::string> published_names() {
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

std::vector<std::string> read_class_names(const std::string& path, AnnotationFiles& files) {
  if (!path_exists(path)) return published_names();
  std::vector<std::string> names = class_lines(path, files.read_lines(path, kNamesFile));
  if (names.size() != kClassCount) {
    throw Error(ErrorKind::kData, cat(path, ": has another number of class names (got ",
                                      names.size(), ", want ", kClassCount, ")"));
  }
  return names;
}

// Names of the training batches in the folder, by their bytes. Says what is packed.
std::vector<std::string> training_batches(const std::string& folder) {
  std::set<std::string> names;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name_matches(name, "data_batch_.*\\.bin")) names.insert(name);
  }
  if (code) throw read_error(folder, code.value());
  if (names.empty()) {
    throw Error(ErrorKind::kNoInput,
                cat(folder, ": has no training batches (want data_batch_1.bin, ...)"), kHint);
  }
  const std::string test = cat(folder, "/", kTestBatch);
  const std::vector<std::string> found(names.begin(), names.end());
  log_info(
      folder, ": packing ", first_names(found),
      path_exists(test) ? cat("; the test images are a set of their own: --images ", test) : "");
  return found;
}

void read_batch(const std::string& path, const std::string& name, AnnotationFiles& files,
                ReadAnnotations& out) {
  if (const std::uint64_t bytes = file_size_bytes(path); bytes % kCifar10RecordBytes != 0) {
    throw Error(ErrorKind::kData,
                cat(path, ": is not a whole number of records (got ", bytes,
                    " bytes, want a multiple of ", kCifar10RecordBytes, ")"),
                "unpack or download CIFAR-10's binary version again");
  }
  files.add_file(path, name);
  const std::string batch = read_file(path);
  for (std::size_t record = 0; record < batch.size() / kCifar10RecordBytes; ++record) {
    const int label = static_cast<unsigned char>(batch[record * kCifar10RecordBytes]);
    if (label >= static_cast<int>(kClassCount)) {
      throw Error(ErrorKind::kData,
                  cat(path, ": record ", record, ": the label is out of range (got ", label,
                      ", want 0..", kClassCount - 1, ")"));
    }
    add_image(out.instances, {.file_name = cifar10_image_name(name, record)});
    out.image_labels.push_back(label);
  }
}

}  // namespace

std::string cifar10_image_name(const std::string& batch_file, std::uint64_t record) {
  return cat(batch_file, ":", record);
}

std::optional<Cifar10Place> cifar10_place(const std::string& image_name) {
  const std::size_t colon = image_name.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const auto record = exact_number<std::uint64_t>(std::string_view(image_name).substr(colon + 1));
  constexpr std::uint64_t kMostRecords =
      std::numeric_limits<std::int64_t>::max() / kCifar10RecordBytes;
  if (!record || *record >= kMostRecords) return std::nullopt;
  return Cifar10Place{.batch_file = image_name.substr(0, colon),
                      .offset_bytes = *record * kCifar10RecordBytes + 1};
}

std::string cifar10_rgb(std::string_view planes) {
  RETINA_CHECK(planes.size() == kCifar10ImageBytes, planes.size(), " bytes");
  constexpr std::size_t kPixels = kCifar10ImageBytes / 3;
  std::string rgb(kCifar10ImageBytes, '\0');
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      rgb[3 * pixel + channel] = planes[channel * kPixels + pixel];
    }
  }
  return rgb;
}

ReadAnnotations read_cifar10(const AnnotationSource& source, AnnotationFiles& files) {
  const bool is_one = !is_folder(source.images);
  const fs::path file(source.images);
  const std::string folder = is_one ? (file.parent_path() / "").string() : source.images + "/";
  const std::vector<std::string> names =
      is_one ? std::vector<std::string>{file.filename().string()} : training_batches(source.images);
  ReadAnnotations out;
  out.instances.categories = numbered_categories(read_class_names(folder + kNamesFile, files));
  for (const std::string& name : names) read_batch(folder + name, name, files, out);
  return out;
}

}  // namespace retina
