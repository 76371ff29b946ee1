// Every file of the JPEG zoo (../shared/data/jpeg_zoo) against its manifest and Pillow's pixels.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/image/jpeg.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// Pillow 13.0 `convert("RGB")` where the manifest has no hash: no other decoder does these.
const std::map<std::string, std::string> kPillowMd5 = {
    {"d_cmyk.jpg", "054766908a896eddf5248c3c1f107885"},
    {"pil_pil_sample_cmyk.jpg", "13fd114a583647a6a323d6b590482d12"},
    {"d_ss410x.jpg", "cc4552a6843c03f453427c92bd4e7d1d"},
    {"d_ssodd.jpg", "1aa374acaaf00a7effce8a8440fdf206"},
};

std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else if (line[i] != '\r') {
      cells.back() += line[i];
    }
  }
  return cells;
}

struct ZooFile {
  std::string name{}, expect{}, md5{};
};

std::vector<ZooFile> read_manifest(const std::string& folder) {
  std::istringstream lines(read_file(folder + "/manifest.csv"));
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> header = split_csv(line);
  std::vector<ZooFile> files;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = split_csv(line);
    ZooFile file;
    for (std::size_t i = 0; i < cells.size() && i < header.size(); ++i) {
      if (header[i] == "file") file.name = cells[i];
      if (header[i] == "expect") file.expect = cells[i];
      if (header[i] == "rgb_md5_turbojpeg") file.md5 = cells[i];
    }
    if (kPillowMd5.count(file.name) != 0) file.md5 = kPillowMd5.at(file.name);
    files.push_back(file);
  }
  return files;
}

bool must_fail(const ZooFile& file) {
  return file.expect == "error" || file.expect.starts_with("not JPEG") ||
         file.expect.starts_with("reject") || file.name == "d_trunc_000permille.jpg" ||
         file.name == "d_trunc_010permille.jpg";
}

std::string described(const DecodeStatus& status) {
  return cat(status.ok, "|", status.problem, "|", status.first_warning, "|", status.truncated,
             status.unsupported, status.is_blank);
}

TEST(Zoo, EveryFileDecodesToPillowsPixelsOrFailsAsItsManifestSays) {
  RETINA_DATA_OR_SKIP(folder, "jpeg_zoo");
  const std::vector<ZooFile> files = read_manifest(folder);
  ASSERT_GT(files.size(), 50U);
  const TestFolder scratch;
  JpegDecoder decoder;
  Image image;
  std::vector<std::string> command = {"md5sum"}, wanted;
  for (const ZooFile& file : files) {
    const std::string bytes = read_file(folder + "/" + file.name);
    const DecodeStatus status = decoder.decode(bytes, image);
    EXPECT_EQ(usable(status), !must_fail(file)) << file.name << ": " << unusable_reason(status);
    EXPECT_EQ(unusable_reason(status).empty(), !must_fail(file)) << file.name;
    if (!status.ok || file.md5.empty()) continue;
    command.push_back(scratch / file.name);
    wanted.push_back(file.md5);
    write_file_atomically(command.back(),
                          {reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()});
  }
  const ProcessResult sums = run_process(command);
  ASSERT_EQ(sums.exit_code, 0) << sums.err;
  std::istringstream lines(sums.out);
  std::string md5, path;
  for (const std::string& want : wanted) {
    ASSERT_TRUE(lines >> md5 >> path);
    EXPECT_EQ(md5, want) << path;
  }
  EXPECT_GT(wanted.size(), 60U);
}

TEST(Zoo, ExactlyTheImagesWithoutAnEndAreTruncated) {
  RETINA_DATA_OR_SKIP(folder, "jpeg_zoo");
  JpegDecoder decoder;
  Image image;
  std::vector<std::string> truncated;
  for (const ZooFile& file : read_manifest(folder)) {
    const std::string bytes = read_file(folder + "/" + file.name);
    const DecodeStatus status = decoder.decode(bytes, image);
    if (status.ok && status.truncated) truncated.push_back(file.name);
  }
  // The first file ends right after its headers. Of the last, whose every 400th bit is wrong, the
  // decoder loses count: two rows of blocks are missing at its end.
  EXPECT_EQ(truncated,
            (std::vector<std::string>{"pil_ultrahdr.jpg", "d_trunc_100permille.jpg",
                                      "d_trunc_500permille.jpg", "d_trunc_900permille.jpg",
                                      "d_trunc_999permille.jpg", "d_bitflip_400.jpg"}));
}

// As they are, and with bytes changed, lost and cut off.
TEST(Zoo, CheckSaysWhatDecodeSays) {
  RETINA_DATA_OR_SKIP(folder, "jpeg_zoo");
  std::mt19937 random(1);
  JpegDecoder decoder, checker;
  Image image;
  int damaged = 0;
  for (const ZooFile& file : read_manifest(folder)) {
    const std::string whole = read_file(folder + "/" + file.name);
    for (int i = 0; i < 20; ++i) {
      std::string bytes = whole;
      const std::size_t at = random() % std::max<std::size_t>(bytes.size(), 1);
      if (i % 3 == 1 && at < bytes.size()) bytes[at] = static_cast<char>(random());
      if (i % 3 == 2) bytes.erase(at, i % 2 == 0 ? std::string::npos : random() % 100);
      int width = 0, height = 0;
      const DecodeStatus want = decoder.decode(bytes, image);
      const DecodeStatus got = checker.check(bytes, width, height);
      ASSERT_EQ(described(got), described(want)) << file.name << ", " << i;
      if (!want.ok) continue;
      EXPECT_EQ(std::pair(width, height), std::pair(image.width, image.height));
      damaged += want.first_warning.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(damaged, 100);
}

}  // namespace
}  // namespace retina
