#include "tests/fuzz/parsers.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>

#include "preprocess/formats/annotation_source.h"
#include "preprocess/formats/cifar10.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/image/jpeg.h"
#include "shared/shard/manifest.h"
#include "shared/shard/record.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

void require(bool promise, const char* what) {
  if (!promise) throw std::logic_error(what);
}

// What refuses the bytes must say why; the log keeps it on one line.
void accept_or_refuse(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const Error& error) {
    require(!std::string_view(error.what()).empty(), "a refusal without a reason");
  }
}

template <class Number>
void put(std::string& bytes, std::size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof(number));  // little-endian machines
}

template <class Number>
Number get_number(const std::string& bytes, std::size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// FORMAT.md: lengths at 24 and 28, hashes at 32 and 40. Random bytes would never get past them.
std::string with_right_hashes(std::string record) {
  if (record.size() < kRecordHeaderBytes) return record;
  const auto payload = static_cast<std::uint32_t>(record.size() - kRecordHeaderBytes);
  const auto annotations = std::min(get_number<std::uint32_t>(record, 24), payload);
  put(record, 24, annotations);
  put(record, 28, payload - annotations);
  put(record, 32, xxh3(std::string_view(record).substr(kRecordHeaderBytes)));
  put(record, 40, xxh3(std::string_view(record).substr(0, 40)));
  return record;
}

void check_record(std::string_view bytes) {
  const Record record = decode_record(bytes, "record");
  for (const RecordAnnotation& one : record.annotations) {
    const auto box = training_box(one, record.width, record.height);
    require(!box || ((*box)[2] > (*box)[0] && (*box)[3] > (*box)[1]), "a box to train on is empty");
  }
  const std::string again = encode_record(record);
  require(encode_record(decode_record(again, "again")) == again, "a record changes when rewritten");
}

void run_record(std::string_view bytes) {
  accept_or_refuse([&] { check_record(bytes); });
  const std::string repaired = with_right_hashes(std::string(bytes));
  accept_or_refuse([&] { check_record(repaired); });
}

void check_manifest(std::string_view text) {
  const std::string again = encode_manifest(decode_manifest(text, "manifest"));
  require(encode_manifest(decode_manifest(again, "again")) == again,
          "a manifest changes when rewritten");
}

// The hash in its place at the end of the text.
std::string with_right_hash(std::string text) {
  constexpr std::string_view kTail = "0123456789abcdef\"\n}\n";
  if (text.size() < kTail.size()) return text;
  const std::size_t at = text.size() - kTail.size();
  text.replace(at, 16, 16, '0');
  return text.replace(at, 16, hex64(xxh3(text)));
}

void run_manifest(std::string_view bytes) {
  accept_or_refuse([&] { check_manifest(bytes); });
  const std::string repaired = with_right_hash(std::string(bytes));
  accept_or_refuse([&] { check_manifest(repaired); });
}

// One folder for the whole process: readers of files need one.
const TestFolder& folder() {
  static const TestFolder one;
  return one;
}

void write_plainly(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// What a reader says: the text of what it read, or the message.
std::string outcome(const std::function<std::string()>& read) {
  try {
    return read();
  } catch (const Error& error) {
    require(!std::string_view(error.what()).empty(), "a refusal without a reason");
    return error.what();
  }
}

// Whole, in pieces shorter than an entry, and by threads: the same is read, or told.
void run_in_pieces(
    std::string_view bytes,
    const std::function<std::string(const std::string&, const ReadingPieces&)>& read) {
  static const std::string path = folder() / "entries.json";
  write_plainly(path, bytes);
  const std::string whole = outcome([&] { return read(path, {}); });
  for (const std::size_t piece_bytes : {std::size_t{16}, std::size_t{200}}) {
    require(outcome([&] { return read(path, {.thread_count = 2, .piece_bytes = piece_bytes}); }) ==
                whole,
            "entries differ with the pieces that they are read in");
  }
}

void run_instances(std::string_view bytes) {
  run_in_pieces(bytes, [](const std::string& path, const ReadingPieces& pieces) {
    return instances_to_json(read_instances(path, pieces));
  });
}

void run_results(std::string_view bytes) {
  run_in_pieces(bytes, [](const std::string& path, const ReadingPieces& pieces) {
    std::string text;
    for (const Detection& one : read_results(path, pieces)) {
      text += cat(one.image_id, ' ', one.category_id, ' ', shortest(one.score));
      for (const double side : one.bbox) text += ' ' + shortest(side);
    }
    return text;
  });
}

// Reads annotations; a source without boxes gives each image a class of its list.
void check_annotations(const AnnotationSource& source) {
  set_log_level(LogLevel::kError);  // not a line for each class without images
  accept_or_refuse([&] {
    const ReadAnnotations read = read_annotations(source);
    const Instances& instances = read.instances;
    for (const Annotation& one : instances.annotations) {
      require(one.bbox[2] >= 0 && one.bbox[3] >= 0, "a box has a negative side");
    }
    if (task_of(source.format) == Task::kDetection) return;
    require(read.image_labels.size() == instances.images.size(), "an image without a class");
    for (const int label : read.image_labels) {
      require(label >= 0 && label < static_cast<int>(instances.categories.size()),
              "a label beyond the classes");
    }
  });
}

// Two files in one input, divided by a line "===".
struct TwoFiles {
  std::string_view first{}, second{};
};
TwoFiles divided(std::string_view bytes) {
  constexpr std::string_view kBetween = "===\n";
  const std::size_t at = bytes.find(kBetween);
  if (at == std::string_view::npos) return {bytes, {}};
  return {bytes.substr(0, at), bytes.substr(at + kBetween.size())};
}

// Writes a file and the folders above it; returns its path.
std::string written(const std::string& name, std::string_view bytes) {
  const std::string path = folder() / name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_plainly(path, bytes);
  return path;
}

void run_voc(std::string_view bytes) {
  written("voc/Annotations/1.xml", bytes);
  check_annotations({.format = AnnotationFormat::kVoc,
                     .path = folder() / "voc/Annotations",
                     .images = folder().path()});
}

// The classes, then the annotations.
template <AnnotationFormat format>
void run_with_classes(std::string_view bytes) {
  const auto [classes, annotations] = divided(bytes);
  const std::string list = written("classes.txt", classes);
  check_annotations({.format = format,
                     .path = written("annotations", annotations),
                     .classes = classes.empty() ? "" : list,
                     .images = folder().path()});
}

void run_yolo(std::string_view bytes) {
  static const std::string image =
      written("yolo/images/train/1.jpg", encode_jpeg(Image(40, 30), 50));
  const auto [yaml, labels] = divided(bytes);
  written("yolo/labels/train/1.txt", labels);
  check_annotations({.format = AnnotationFormat::kYolo,
                     .path = written("yolo/data.yaml", yaml),
                     .images = image.substr(0, image.rfind('/'))});
}

void run_dota(std::string_view bytes) {
  written("dota/images/other.txt", "");
  written("dota/labelTxt/P0001.txt", bytes);
  check_annotations({.format = AnnotationFormat::kDota,
                     .path = folder() / "dota/labelTxt",
                     .images = folder() / "dota/images"});
}

// The classes and their images of a flat folder; then the classes of folders.
void run_folders(std::string_view bytes) {
  static const std::string flat = folder() / "flat", by_class = folder() / "by-class";
  const auto [classes, truth] = divided(bytes);
  for (const char* name : {"n01440764", "n02119789"}) {
    written(cat("by-class/", name, "/1.jpg"), "");
    written(cat("flat/", name, ".jpg"), "");
  }
  const std::string list = written("classes.txt", classes), path = written("truth.txt", truth);
  constexpr auto kFolders = AnnotationFormat::kFolders;
  check_annotations({.format = kFolders, .path = path, .images = flat});
  check_annotations({.format = kFolders, .path = path, .classes = list, .images = flat});
  check_annotations({.format = kFolders, .classes = list, .images = by_class});
}

// The names of the classes and a batch. The rest of a record may be left out of the input.
void run_cifar10(std::string_view bytes) {
  const auto [names, batch] = divided(bytes);
  written("cifar10/batches.meta.txt", names);
  std::string whole(batch);
  whole.resize((whole.size() + kCifar10RecordBytes - 1) / kCifar10RecordBytes *
               kCifar10RecordBytes);
  for (const std::string_view content : {batch, std::string_view(whole)}) {
    check_annotations({.format = AnnotationFormat::kCifar10,
                       .images = written("cifar10/data_batch_1.bin", content)});
  }
  if (const auto place = cifar10_place(std::string(names))) {
    require(place->offset_bytes % kCifar10RecordBytes == 1, "an image between two records");
  }
}

void run_jpeg(std::string_view bytes) {
  constexpr std::uint64_t kMaxPixels = 1 << 18;
  static JpegDecoder decoder(kMaxPixels);
  static Image image;
  int width = 0, height = 0;
  const DecodeStatus size = decoder.read_size(bytes, width, height);
  const DecodeStatus status = decoder.decode(bytes, image);
  if (!status.ok) return;
  require(size.ok && width == image.width && height == image.height, "the header's size differs");
  require(image.width > 0 && image.height > 0, "an image without pixels");
  require(
      image.rgb.size() == static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3,
      "pixels are missing");
}

}  // namespace

const std::vector<FuzzedParser>& fuzzed_parsers() {
  static const std::vector<FuzzedParser> parsers = {
      {"record", run_record},
      {"manifest", run_manifest},
      {"instances", run_instances},
      {"results", run_results},
      {"voc", run_voc},
      {"csv", run_with_classes<AnnotationFormat::kCsv>},
      {"yolo", run_yolo},
      {"xview", run_with_classes<AnnotationFormat::kXview>},
      {"dota", run_dota},
      {"folders", run_folders},
      {"cifar10", run_cifar10},
      {"jpeg", run_jpeg}};
  return parsers;
}

}  // namespace retina
