#include "shared/data/image_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "tests/support/images/images.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Paths below are relative to the folder.
class ImageInputs : public testing::Test {
 protected:
  ImageInputs() { fs::current_path(folder_.path()); }
  ~ImageInputs() override { fs::current_path(before_); }

  void write(const std::string& name, const std::string& bytes = "x") {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write_file_atomically(folder_ / name, bytes);
  }
  static std::vector<std::string> names(const std::vector<std::string>& given,
                                        const std::string& output = "out") {
    std::vector<std::string> names;
    for (const ImageFile& one : list_images(given, output).files) names.push_back(one.name);
    return names;
  }
  static Error refusal(const std::vector<std::string>& given, const std::string& output = "out") {
    try {
      list_images(given, output);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorKind::kInternal, "");
  }

  TestFolder folder_;
  const fs::path before_ = fs::current_path();
};

TEST_F(ImageInputs, OfOneFolderHaveTheirNamesInIt) {
  write("photos/a.jpg");
  write("photos/sub/b.jpg");
  EXPECT_THAT(names({"photos"}), ElementsAre("a.jpg", "sub/b.jpg"));
  EXPECT_THAT(names({folder_ / "photos/"}), ElementsAre("a.jpg", "sub/b.jpg"));
}

TEST_F(ImageInputs, OtherwiseHaveTheirPathsAsGiven) {
  write("a.jpg");
  write("photos/b.jpg");
  write("more/sub/c.jpg");
  EXPECT_THAT(names({"photos/b.jpg"}), ElementsAre("photos/b.jpg"));
  EXPECT_THAT(names({"photos/b.jpg", "./a.jpg", "more/"}),
              ElementsAre("./a.jpg", "more/sub/c.jpg", "photos/b.jpg"));
  EXPECT_THAT(names({folder_ / "a.jpg", "photos/../photos/b.jpg"}),
              ElementsAre(folder_ / "a.jpg", "photos/../photos/b.jpg"));
}

TEST_F(ImageInputs, OfOneNameCountOnce) {
  write("photos/a.jpg");
  write("more/a.jpg");
  EXPECT_THAT(names({"photos", "photos/", "photos/a.jpg", "photos/*", "more"}),
              ElementsAre("more/a.jpg", "photos/a.jpg"));
}

TEST_F(ImageInputs, OneFileByOtherWaysCountsOnceByTheFirst) {
  write("a.jpg");
  write("2024/b.jpg");
  fs::create_directory_symlink("2024", "latest");
  EXPECT_THAT(
      names({"./a.jpg", "a.jpg", folder_ / "a.jpg", "2024/../a.jpg", "2024//b.jpg", "latest"}),
      ElementsAre("./a.jpg", "2024//b.jpg"));
  EXPECT_THAT(names({"*/*"}), ElementsAre("2024/b.jpg"));
  // A link to a file is a name that somebody gave it.
  fs::create_symlink("a.jpg", "c.jpg");
  EXPECT_THAT(names({"a.jpg", "c.jpg"}), ElementsAre("a.jpg", "c.jpg"));
}

TEST_F(ImageInputs, AGlobIsWhatItMatches) {
  write("my photos/a 1.jpg");
  write("my photos/b 2.png");
  write("my photos/.hidden.jpg");
  write("my photos/Thumbs.db");
  write("my photos/sub/c.jpg");
  write("my photos/sub/deep/d.jpg");
  EXPECT_THAT(names({"my photos/* [12].jpg"}), ElementsAre("my photos/a 1.jpg"));
  EXPECT_THAT(names({"my photos/*/?.jpg"}), ElementsAre("my photos/sub/c.jpg"));
  EXPECT_THAT(names({"my photos/**/*.jpg"}), ElementsAre("my photos/sub/c.jpg"))
      << "glob(3) knows no **";
  EXPECT_THAT(names({"my photos/.h*"}), ElementsAre("my photos/.hidden.jpg"));
  EXPECT_THAT(names({"my photos/*"}),
              ElementsAre("my photos/a 1.jpg", "my photos/b 2.png", "my photos/sub/c.jpg",
                          "my photos/sub/deep/d.jpg"))
      << "folders that it matches are listed";
}

TEST_F(ImageInputs, AFileIsTakenByItsNameBeforeAPatternIs) {
  write("a[1].jpg");
  write("a1.jpg");
  write("what?.jpg");
  EXPECT_THAT(names({"a[1].jpg"}), ElementsAre("a[1].jpg"));
  EXPECT_THAT(names({"what?.jpg"}), ElementsAre("what?.jpg"));
}

TEST_F(ImageInputs, ThatAreNotThereAreMissing) {
  write("photos/a.jpg");
  fs::create_symlink("me", folder_ / "me");
  for (const char* given : {"nothing", "nothing/a.jpg", "photos/a.jpg/b", "photos/*.png", "me"}) {
    const Error error = refusal({"photos", given});
    EXPECT_EQ(error.kind(), ErrorKind::kNoInput) << given;
    EXPECT_THAT(error.what(), HasSubstr(given));
  }
  EXPECT_STREQ(refusal({"photos/*.png"}).what(), "photos/*.png: no file has such a name");
  EXPECT_STREQ(refusal({"new\nline"}).what(), "new\\nline: does not exist");
}

TEST_F(ImageInputs, AreFilesOrFolders) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* given : {"pipe", "/dev/null"}) {
    const Error error = refusal({given});
    EXPECT_EQ(error.kind(), ErrorKind::kNoInput);
    EXPECT_EQ(error.what(), cat(given, ": is neither a regular file nor a folder"));
  }
  // Among what a glob matches it is one of many, as below a folder.
  write("pin.jpg");
  EXPECT_THAT(names({"pi*"}), ElementsAre("pin.jpg", "pipe"));
}

TEST_F(ImageInputs, AFolderWithoutFilesIsNamedWhereOthersAreGiven) {
  write("photos/a.jpg");
  fs::create_directories(folder_ / "empty/sub");
  const ImageListing both = list_images({"photos", "empty"}, "out");
  ASSERT_THAT(both.skipped, SizeIs(1));
  EXPECT_EQ(both.skipped[0].name, "empty/");
  EXPECT_EQ(both.skipped[0].problem.reason, "holds no files");
  EXPECT_THAT(list_images({"empty"}, "out").skipped, IsEmpty());
}

TEST_F(ImageInputs, FoldersWithoutPermissionAreLeftOut) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  write("a/1.jpg");
  write("b/2.jpg");
  fs::permissions(folder_ / "b", fs::perms::none);
  const ImageListing listing = list_images({"*/*.jpg"}, "out");
  fs::permissions(folder_ / "b", fs::perms::all);
  ASSERT_THAT(listing.skipped, SizeIs(1));
  EXPECT_EQ(listing.skipped[0].name, "b/");
  EXPECT_EQ(listing.skipped[0].problem.kind, "unreadable");
  EXPECT_THAT(listing.files, SizeIs(1));
}

TEST_F(ImageInputs, TheOutputIsNeverEntered) {
  write("a.jpg");
  write("photos/out/drawn/1.jpg");
  write("photos/b.jpg");
  EXPECT_THAT(names({"photos"}, "photos/out"), ElementsAre("b.jpg"));
  EXPECT_THAT(names({"photos/*", "a.jpg"}, folder_ / "photos/./out"),
              ElementsAre("a.jpg", "photos/b.jpg"));
  EXPECT_THAT(names({"photos/b.jpg", "photos/out"}, "photos/out"), ElementsAre("photos/b.jpg"))
      << "as a shell's * gives it when the command is repeated";
  EXPECT_EQ(refusal({"photos"}, "photos").kind(), ErrorKind::kConfig);
}

TEST_F(ImageInputs, OfOneFolderShareIt) {
  fs::create_directories(folder_ / "photos");
  std::vector<std::string> given;
  for (int i = 0; i < 5000; ++i) {
    given.push_back(cat("photos/", i, ".jpg"));
    std::ofstream(folder_ / given.back()) << "x";
  }
  const ImageListing listing = list_images(given, "out");
  EXPECT_THAT(listing.files, SizeIs(5000));
  EXPECT_THAT(listing.roots, SizeIs(1)) << "a folder is asked once whether it is there";
}

// The very image, whatever folder it lies in.
TEST_F(ImageInputs, AreDecodedFromTheirFolders) {
  write("a.png", encode_png(colourful(30, 20)));
  write("photos/b.png", encode_png(colourful(21, 22)));
  write("more/sub/c.png", encode_png(colourful(33, 34)));
  const ImageListing listing = list_images({"a.png", folder_ / "photos/b.png", "more"}, "out");
  JpegDecoder decoder;
  std::vector<FoundImage> images;
  for (const ImageFile& file : listing.files) {
    const ImageRoot& root = listing.roots[file.root];
    LookedAt seen = look_at(ImageFolder(root.folder), root.name_in_folder(file.name), decoder);
    ASSERT_FALSE(seen.problem) << file.name << ": " << seen.problem->reason;
    seen.image.name = file.name;
    seen.image.root = file.root;
    images.push_back(seen.image);
  }
  const ImageFiles source(listing.roots, images, {});
  ASSERT_EQ(source.index().size(), 3U);
  for (std::size_t place = 0; place < 3; ++place) {
    Image out;
    EXPECT_EQ(source.index()[place].image_id, static_cast<std::int64_t>(place) + 1);
    ASSERT_FALSE(source.decode(place, decoder, out));
    EXPECT_EQ(out.rgb, colourful(out.width, out.height).rgb);
  }
  EXPECT_EQ(source.index()[0].file_name, folder_ / "photos/b.png");
  EXPECT_EQ(source.index()[0].width, 21);
}

}  // namespace
}  // namespace retina
