#include "shared/data/listed_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "shared/base/file.h"
#include "tests/support/images/images.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"
#include "tests/support/unprivileged.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Folder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write_file_atomically(folder_ / name, bytes);
  }
  std::vector<std::string> listed(const std::string& without = "") {
    return list_files(folder_.path(), without).names;
  }
  LookedAt look(const std::string& name) {
    JpegDecoder decoder;
    return look_at(ImageFolder(folder_.path()), name, decoder);
  }
  std::string kind_of(const std::string& name) {
    const LookedAt file = look(name);
    return file.problem ? file.problem->kind : "";
  }

  TestFolder folder_;
  const std::string png_ = encode_png(colourful(30, 20));
};

TEST_F(Folder, IsListedToAnyDepthByName) {
  for (const char* name : {"b.png", "a.d/z", "a/deep/er/x y.JPG", "a/\xC3\xA9t\xC3\xA9.webp",
                           "a/\xFF\x80.png", "new\nline.png"}) {
    write(name, png_);
  }
  EXPECT_THAT(listed(), ElementsAre("a.d/z", "a/deep/er/x y.JPG", "a/\xC3\xA9t\xC3\xA9.webp",
                                    "a/\xFF\x80.png", "b.png", "new\nline.png"));
}

TEST_F(Folder, WhatSystemsLeaveBehindIsNotListed) {
  for (const char* name : {"1.png", "._1.png", ".hidden", ".DS_Store", "Thumbs.db", "desktop.ini",
                           ".ipynb_checkpoints/1.png", "a/__MACOSX/1.png", "a/@eaDir/1.png"}) {
    write(name, png_);
  }
  EXPECT_THAT(listed(), ElementsAre("1.png"));
  // Below a folder that was asked for.
  EXPECT_THAT(list_files(folder_ / ".ipynb_checkpoints", "").names, ElementsAre("1.png"));
}

TEST_F(Folder, LinksThatLeadInACircleEnd) {
  write("a/1.png", png_);
  write("b/2.png", png_);
  fs::create_directory_symlink(folder_.path(), folder_ / "a/up");
  fs::create_directory_symlink(folder_ / "a", folder_ / "b/other");
  fs::create_directory_symlink(folder_ / "b", folder_ / "a/other");
  fs::create_symlink("me", folder_ / "me");
  // Each folder once, by the first way in the order of names.
  EXPECT_THAT(listed(), ElementsAre("a/1.png", "a/other/2.png", "me"));
  EXPECT_EQ(kind_of("me"), "missing");
}

TEST_F(Folder, LinkedFoldersAndFilesOutsideAreEntered) {
  const TestFolder elsewhere;
  write_file_atomically(elsewhere / "far.png", png_);
  fs::create_directory_symlink(elsewhere.path(), folder_ / "linked");
  fs::create_symlink(elsewhere / "far.png", folder_ / "near.png");
  EXPECT_THAT(listed(), ElementsAre("linked/far.png", "near.png"));
  EXPECT_EQ(kind_of("linked/far.png"), "");
  EXPECT_EQ(kind_of("near.png"), "");
}

TEST_F(Folder, TheOutputInItIsNotEntered) {
  write("1.png", png_);
  write("out/drawn/1.jpg", png_);
  EXPECT_THAT(listed(folder_ / "out"), ElementsAre("1.png"));
  EXPECT_NE(refusal_of(ErrorKind::kConfig, [&] { listed(folder_ / "."); }), "accepted");
}

TEST_F(Folder, ThatIsNotThereIsAMissingInput) {
  write("file", "x");
  for (const char* name : {"nothing", "file"}) {
    EXPECT_NE(refusal_of(ErrorKind::kNoInput, [&] { list_files(folder_ / name, ""); }), "accepted");
  }
}

TEST_F(Folder, EveryFileIsLookedAtByItsContent) {
  write("no-name", encode_jpeg(colourful(31, 21), 90));
  write("a.jpg", png_);
  write("b.txt", encode_webp(colourful(33, 23)));
  write("c",
        encode_tiff({.width = 300, .height = 200, .orientation = 6},
                    std::vector<std::uint16_t>(300 * 200 * 3)));  // its directory is at the end
  EXPECT_EQ(look("no-name").image.width, 31);
  EXPECT_EQ(look("a.jpg").image.height, 20);
  EXPECT_EQ(look("b.txt").image.width, 33);
  EXPECT_EQ(look("c").image.width, 300);
  EXPECT_EQ(look("c").image.orientation, 6);
}

TEST_F(Folder, OrientationIsFoundWhereverItStands) {
  // More than what is looked at of a file whose beginning says all else.
  std::vector<std::uint16_t> noise(300 * 200 * 3);
  std::uint32_t next = 1;
  for (std::uint16_t& sample : noise) sample = static_cast<std::uint8_t>((next *= 69069) >> 24);
  const std::string png = with_orientation(encode_png({.width = 300, .height = 200}, noise), 6);
  constexpr std::size_t kChunk = 33, kChunkBytes = 38, kEndBytes = 12;
  const std::string chunk = png.substr(kChunk, kChunkBytes);
  std::string late = png;
  late.insert(png.size() - kEndBytes, chunk);
  late.erase(kChunk, kChunkBytes);
  ASSERT_GT(late.size(), std::size_t{1} << 16);
  write("a.png", late);
  write("b.webp", with_orientation(encode_webp(colourful(400, 300)), 8));
  EXPECT_EQ(look("a.png").image.orientation, 6);
  EXPECT_EQ(look("b.webp").image.orientation, 8);
}

TEST_F(Folder, SamplesThatNobodyStretchedSayWhatTakesThem) {
  const std::vector<std::uint16_t> samples(16 * 16 * 3, 4095);
  write("a.png", encode_png({.bit_depth = 16}, samples));
  write("a.tif", encode_tiff({.bits = 16}, samples));
  const ImageFolder folder(folder_.path());
  for (const char* name : {"a.png", "a.tif"}) {
    JpegDecoder decoder;
    Image image;
    const auto problem = decode_file(folder, name, {.expected = {16, 16}}, decoder, image);
    ASSERT_TRUE(problem.has_value()) << name;
    EXPECT_EQ(problem->kind, "format");
    EXPECT_THAT(problem->reason, HasSubstr("-bit samples, whose range is not known"));
    EXPECT_THAT(problem->reason, HasSubstr("; add --stretch 2,98"));
    EXPECT_FALSE(
        decode_file(folder, name, {.expected = {16, 16}, .stretch = Stretch{}}, decoder, image));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map without limit

// In a process that may take 32 MiB more: whether each image of 6,000 x 4,000 pixels is a problem
// of its own.
bool is_too_large(const ImageFolder& folder, const std::vector<std::string>& names) {
  std::size_t mapped_pages = 0;
  std::ifstream("/proc/self/statm") >> mapped_pages;
  const rlim_t bytes =
      mapped_pages * static_cast<std::size_t>(::getpagesize()) + (std::size_t{32} << 20);
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  ::setrlimit(RLIMIT_AS, &limit);
  JpegDecoder decoder;
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    Image image;
    const auto problem = decode_file(folder, name, {.expected = {6000, 4000}}, decoder, image);
    return problem && problem->kind == "too-large" && problem->reason == "does not fit into memory";
  });
}

TEST_F(Folder, AnImageThatThereIsNoMemoryForIsAProblemOfThatImage) {
  const Image black(6000, 4000);
  write("a.jpg", encode_jpeg(black, 50));
  write("a.png", encode_png(black));
  write("a.webp", encode_webp(black));
  write("a.tif", sparse_tiff(6000, 4000, 1024, 1024));
  const ImageFolder folder(folder_.path());
  EXPECT_EXIT(std::_Exit(is_too_large(folder, {"a.jpg", "a.png", "a.webp", "a.tif"}) ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

#endif

// A download that stood still has its size and its beginning.
TEST_F(Folder, AFileIsKnownByAllOfItsContent) {
  std::string file = encode_jpeg(colourful(31, 21), 90) + std::string(200'000, '\0');
  write("a", file);
  const std::uint64_t before = look("a").image.xxh3;
  EXPECT_EQ(look("a").image.xxh3, before);
  file[150'000] = 1;
  write("a", file);
  EXPECT_NE(look("a").image.xxh3, before);
}

TEST_F(Folder, LongHeadersAreReadToTheirEnd) {
  // Two comments of 64 KiB before the image's size.
  std::string jpeg = encode_jpeg(colourful(31, 21), 90);
  const std::string comment = "\xFF\xFE\xFF\xFF" + std::string(65533, 'c');
  jpeg.insert(2, comment + comment);
  write("long.jpg", jpeg);
  EXPECT_EQ(kind_of("long.jpg"), "");
  EXPECT_EQ(look("long.jpg").image.height, 21);
}

TEST_F(Folder, WhatIsNoImageHasAKindAndAReason) {
  write("empty", "");
  write("text.png", "hello");
  write("cut.png", png_.substr(0, 20));
  fs::create_symlink("gone", folder_ / "link.png");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.png").c_str(), 0600), 0);
  std::string bomb = png_;
  bomb[17] = bomb[21] = 1;  // 65,566 x 65,556 pixels
  write("bomb.png", bomb);
  EXPECT_EQ(kind_of("empty"), "format");
  EXPECT_EQ(kind_of("text.png"), "format");
  EXPECT_EQ(kind_of("cut.png"), "damaged");
  EXPECT_EQ(kind_of("link.png"), "missing");
  EXPECT_EQ(kind_of("pipe.png"), "missing");
  EXPECT_EQ(kind_of("bomb.png"), "too-large");
  EXPECT_EQ(look("pipe.png").problem->reason, "is not a regular file");
  EXPECT_THAT(look("bomb.png").problem->reason, HasSubstr("65566x65556"));
  EXPECT_THAT(listed(), testing::SizeIs(6));
}

TEST_F(Folder, WhatMayNotBeReadIsLeftOut) {
  write("1.png", png_);
  write("in/2.png", png_);
  fs::permissions(folder_ / "1.png", fs::perms::none);
  fs::permissions(folder_ / "in", fs::perms::none);
  FolderListing listing;
  {
    const Unprivileged nobody(folder_.path());
    listing = list_files(folder_.path(), "");
    EXPECT_EQ(kind_of("1.png"), "unreadable");
  }
  fs::permissions(folder_ / "in", fs::perms::all);
  ASSERT_THAT(listing.skipped, testing::SizeIs(1));
  EXPECT_EQ(listing.skipped[0].name, "in/");
  EXPECT_EQ(listing.skipped[0].problem.kind, "unreadable");
}

TEST_F(Folder, ImagesDecodeOrSayWhyNot) {
  write("1.png", png_);
  write("2.png", png_.substr(0, png_.size() / 2));
  const std::string jpeg = encode_jpeg(colourful(64, 64), 90);
  write("3.jpg", jpeg.substr(0, jpeg.size() * 3 / 4));
  write("4.png", png_);
  ImageIndex seen;
  for (const std::string& name : listed()) {
    const FoundImage image = look(name).image;
    seen.push_back({.width = image.width, .height = image.height, .file_name = name});
  }
  write("4.png", encode_png(colourful(20, 30)));
  ASSERT_EQ(seen.size(), 4U);
  const ImageFolder folder(folder_.path());
  JpegDecoder decoder;
  Image out;
  const auto decode = [&](std::size_t place) {
    const IndexEntry entry = seen[place];
    return decode_file(folder, std::string(entry.file_name),
                       {.expected = {entry.width, entry.height}}, decoder, out);
  };
  EXPECT_FALSE(decode(0));
  EXPECT_EQ(out.rgb, colourful(30, 20).rgb);
  const auto half = decode(1);
  ASSERT_TRUE(half);
  EXPECT_THAT(half->reason, HasSubstr("the file ends too early"));
  const auto cut = decode(2);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->kind, "damaged");
  EXPECT_THAT(cut->reason, HasSubstr("truncated: "));
  const auto other = decode(3);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->reason, "the file changed while it was used");
  fs::remove(folder_ / "1.png");
  const auto gone = decode(0);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->kind, "missing");
}

TEST_F(Folder, ThatIsGoneIsAnErrorNotADamagedImage) {
  write("images/1.png", encode_png(colourful(8, 8)));
  const ImageFolder folder(folder_ / "images");
  fs::rename(folder_ / "images", folder_ / "moved");
  JpegDecoder decoder;
  Image out;
  const auto decode = [&] { decode_file(folder, "1.png", {.expected = {8, 8}}, decoder, out); };
  EXPECT_NE(refusal_of(ErrorKind::kIo, decode), "accepted");
}

}  // namespace
}  // namespace retina
