// Packs the JPEG zoo (../shared/data/jpeg_zoo): exactly the files that its manifest calls errors
// end up in quarantine.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "preprocess/packer.h"
#include "preprocess/verify.h"
#include "shared/base/file.h"
#include "shared/coco/instances.h"
#include "shared/image/jpeg.h"
#include "shared/shard/quarantine.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char letter : line) {
    if (letter == '"') {
      quoted = !quoted;
    } else if (letter == ',' && !quoted) {
      cells.emplace_back();
    } else if (letter != '\r') {
      cells.back() += letter;
    }
  }
  return cells;
}

enum class Verdict { kPack, kQuarantine, kEither };

struct ZooFile {
  std::string name{}, expect{}, size{};

  Verdict verdict() const {
    // What happens at pack time is decided by the size in the JSON: the photo's, 640x480.
    if (name == "d_wrong_width_639.jpg") return Verdict::kQuarantine;
    if (name == "d_trunc_000permille.jpg" || name == "d_trunc_010permille.jpg") {
      return Verdict::kQuarantine;
    }
    if (name == "d_bitflip_400.jpg") return Verdict::kQuarantine;  // two rows of blocks are missing
    if (expect.find("or reject") != std::string::npos || expect.starts_with("warn or") ||
        name.starts_with("d_trunc_")) {
      return Verdict::kEither;
    }
    return expect.starts_with("decode") ? Verdict::kPack : Verdict::kQuarantine;
  }
};

std::vector<ZooFile> read_zoo(const std::string& folder) {
  std::istringstream lines(read_file(folder + "/manifest.csv"));
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> head = split_csv(line);
  std::vector<ZooFile> files;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = split_csv(line);
    ZooFile file;
    for (std::size_t i = 0; i < std::min(cells.size(), head.size()); ++i) {
      if (head[i] == "file") file.name = cells[i];
      if (head[i] == "expect") file.expect = cells[i];
      if (head[i] == "size") file.size = cells[i];
    }
    files.push_back(file);
  }
  return files;
}

// The manifest's size; where it has none the header's; where that fails the base photo's.
ImageInfo describe(const std::string& folder, const ZooFile& file, std::int64_t id) {
  ImageInfo info{.id = id, .file_name = file.name, .width = 640, .height = 480};
  if (file.name == "d_wrong_width_639.jpg") return info;
  const std::size_t cross = file.size.find('x');
  if (cross != std::string::npos) {
    info.width = std::stoi(file.size.substr(0, cross));
    info.height = std::stoi(file.size.substr(cross + 1));
    return info;
  }
  const std::string bytes = read_file(folder + "/" + file.name);
  int width = 0, height = 0;
  if (JpegDecoder().read_size(bytes, width, height).ok) {
    info.width = width;
    info.height = height;
  }
  return info;
}

TEST(Zoo, ExactlyTheFilesThatTheManifestCallsErrorsAreQuarantined) {
  RETINA_DATA_OR_SKIP(zoo, "jpeg_zoo");
  const TestFolder folder;
  const std::vector<ZooFile> files = read_zoo(zoo);
  ASSERT_GT(files.size(), 80U);
  Instances instances;
  instances.categories = {{.id = 1, .name = "animal"}};
  for (const ZooFile& file : files) {
    instances.images.push_back(
        describe(zoo, file, static_cast<std::int64_t>(instances.images.size() + 1)));
  }
  write_file_atomically(folder / "zoo.json", instances_to_json(instances));
  pack({.annotations = folder / "zoo.json",
        .images = zoo,
        .output = folder / "set",
        .shard_size_bytes = 1 << 20,
        .threads = 2});
  std::set<std::string> quarantined;
  const std::string list = read_file(folder / "set/quarantine.jsonl");
  for (const QuarantinedImage& bad : decode_quarantine(list, "quarantine")) {
    quarantined.insert(bad.file_name);
  }
  for (const ZooFile& file : files) {
    if (file.verdict() == Verdict::kEither) continue;
    EXPECT_EQ(quarantined.count(file.name) == 1, file.verdict() == Verdict::kQuarantine)
        << file.name << ": " << file.expect;
  }
  // Where the manifest leaves the choice: a cut image is quarantined.
  for (const char* name :
       {"d_trunc_100permille.jpg", "d_trunc_500permille.jpg", "d_trunc_999permille.jpg"}) {
    EXPECT_EQ(quarantined.count(name), 1U) << name;
  }
  EXPECT_EQ(verify_shards({.folder = folder / "set", .thread_count = 2}).problem_count, 0);
}

}  // namespace
}  // namespace retina
