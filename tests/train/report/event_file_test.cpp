#include "train/report/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "shared/base/error.h"
#include "tests/support/event_reader.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string only_file(const std::string& folder) {
  const std::vector<std::string> files = event_files(folder);
  EXPECT_EQ(files.size(), 1U);
  return files.at(0);
}

// The first twelve bytes as TensorBoard's own writer has them for an event of 26 bytes.
TEST(EventFile, BeginsWithItsVersion) {
  const TestFolder folder;
  const EventFile file(folder.path(), 0);
  const std::string bytes = read_file(only_file(folder.path()));
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x1a\0\0\0\0\0\0\0\x12\x9b\xd8\x2d", 12));
  EXPECT_EQ(bytes.substr(12, 1), "\x09");                       // wall_time, f64
  EXPECT_EQ(bytes.substr(21, 17), std::string("\x10\0\x1a\x0d"  // step, file_version
                                              "brain.Event:2",
                                              17));
}

TEST(EventFile, HoldsEachScalarUnderItsTagAndStep) {
  const TestFolder folder;
  EventFile file(folder.path(), 0);
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  file.add_scalars(1, {{"train/loss", 0.1}, {"work/memory", 12345678901.0}});
  file.add_scalars(300, {{"train/loss", -2}});
  // While the file is open: a TensorBoard that runs sees each step.
  const std::vector<ReadEvent> events = read_events(only_file(folder.path()));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[2].step, 1);
  EXPECT_GE(events[2].wall_time, std::chrono::duration<double>(before).count());
  EXPECT_THAT(events[2].scalars,
              ElementsAre(Pair("train/loss", 0.1F), Pair("work/memory", 12345678901.0F)));
  EXPECT_EQ(events[3].step, 300);
  EXPECT_THAT(events[3].scalars, ElementsAre(Pair("train/loss", -2.0F)));
}

TEST(EventFile, HoldsImagesWithTheirSize) {
  const TestFolder folder;
  EventFile file(folder.path(), 0);
  const Gallery gallery{.images = {embed_image(Image(40, 30), "image 7"),
                                   embed_image(Image(8, 1000), "image 9", 500)}};
  file.add_images(5, gallery);
  const std::vector<ReadEvent> events = read_events(only_file(folder.path()));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[2].step, 5);
  const EventImage& first = events[2].images.at("validation/image 1");
  EXPECT_EQ(first.width, 40);
  EXPECT_EQ(first.height, 30);
  EXPECT_EQ(first.jpeg, gallery.images[0].jpeg);
  const EventImage& second = events[3].images.at("validation/image 2");
  EXPECT_EQ(second.width, 4);
  EXPECT_EQ(second.height, 500);
}

// Wherever its clock stands: the first name is of the year 2286.
TEST(EventFile, IsReadBehindEarlierOnesWhoseLaterStepsItDrops) {
  const TestFolder folder;
  write_file_atomically(folder / "events.out.tfevents.9999999990.node-b.7", "");
  {
    EventFile killed(folder.path(), 0);
    for (std::int64_t step = 1; step <= 5; ++step) killed.add_scalars(step, {{"loss", 1}});
  }
  {
    EventFile continued(folder.path(), 3);
    continued.add_scalars(4, {{"loss", 2}});
  }
  const std::vector<std::string> files = event_files(folder.path());
  ASSERT_EQ(files.size(), 3U);
  EXPECT_THAT(files[1], HasSubstr("/events.out.tfevents.9999999991."));
  EXPECT_THAT(files[2], HasSubstr("/events.out.tfevents.9999999992."));
  EXPECT_EQ(read_events(files[1]).at(1).step, 1);
  EXPECT_TRUE(read_events(files[2]).at(1).starts_session);
  EXPECT_EQ(read_events(files[2]).at(1).step, 4);
  EXPECT_THAT(shown_scalars(folder.path()).at("loss"),
              ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 2)));
}

TEST(EventFile, SaysThatItCannotBeCreated) {
  const TestFolder folder;
  try {
    const EventFile file(folder / "missing", 0);
    FAIL() << "was created";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCannotCreate);
    EXPECT_THAT(error.hint(), HasSubstr("--tensorboard"));
  }
}

TEST(EventFile, WarnsOnceWhenSomebodyRemovesIt) {
  const TestFolder folder;
  EventFile file(folder.path(), 0);
  testing::internal::CaptureStderr();
  file.sync();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::filesystem::remove_all(folder.path());
  testing::internal::CaptureStderr();
  file.add_scalars(1, {{"loss", 1}});
  file.sync();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("has been removed"));
  testing::internal::CaptureStderr();
  file.sync();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace retina
