// retina-eval --tile, and sets of tiles.
#include <filesystem>

#include "shared/checkpoint/checkpoint.h"
#include "shared/coco/results.h"
#include "tests/evaluate/tiny_model_command.h"
#include "tests/support/images/geotiff.h"
#include "tests/support/images/images.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

class TiledCommand : public TinyModelCommand {
 protected:
  TiledCommand() { std::filesystem::create_directory(photos_); }

  std::vector<std::string> on_photos(const std::vector<std::string>& more,
                                     const std::string& output = "out") const {
    return command_on({"--images", photos_}, output, more);
  }
  std::vector<std::string> on_shards(const std::string& shards,
                                     const std::vector<std::string>& more,
                                     const std::string& output = "out") const {
    return command_on({"--data", folder_ / shards}, output, more);
  }

  std::string photos_ = folder_ / "photos";
};

TEST_F(TiledCommand, DetectsOnTilesOfFiles) {
  write_file_atomically(photos_ + "/a.png", encode_png(colourful(300, 200)));
  write_file_atomically(photos_ + "/b.tif", encode_tiff(colourful(100, 90)));
  const auto whole = run_process(on_photos({}, "whole"));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const auto tiled = run_process(on_photos({"--tile", "128,100", "--threads", "3"}));
  ASSERT_EQ(tiled.exit_code, 0) << tiled.err;
  // a.png: 3 x 2 tiles of 128 px, 4 x 3 of 100 px, and the whole; b.tif is one tile.
  EXPECT_THAT(tiled.err, HasSubstr("on 20 tiles of 2 images"));
  const auto found = read_results(folder_ / "out/detections.json");
  EXPECT_GT(found.size(), read_results(folder_ / "whole/detections.json").size());
  for (const Detection& one : found) {
    EXPECT_LE(one.bbox[0] + one.bbox[2], one.image_id == 1 ? 300.001 : 100.001);
  }
  // The same again on one thread, and from the folder.
  ASSERT_EQ(run_process(on_photos({"--tile", "128,100", "--threads", "1"}, "again")).exit_code, 0);
  EXPECT_EQ(output("out/detections.json"), output("again/detections.json"));
  EXPECT_THAT(run_process(on_photos({"--tile", "128,100"})).out, HasSubstr("already finished"));
  EXPECT_THAT(run_process(on_photos({"--tile", "128"})).err, HasSubstr("tile"));
}

TEST_F(TiledCommand, SkipsAnImageOfWhichOneTileIsDamaged) {
  std::string damaged = encode_png(colourful(300, 200));
  damaged.resize(damaged.size() - damaged.size() / 4);
  write_file_atomically(photos_ + "/a.png", damaged);
  write_file_atomically(photos_ + "/b.png", encode_png(colourful(250, 140)));
  const auto result = run_process(on_photos({"--tile", "100"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(output("out/left_out.json"), HasSubstr("a.png"));
  EXPECT_THAT(output("out/images.json"), Not(HasSubstr("a.png")));
  for (const Detection& one : read_results(folder_ / "out/detections.json")) {
    EXPECT_EQ(one.image_id, 1);
  }
}

TEST_F(TiledCommand, DrawsALargeImageSmallerAndItsPartsInFullSize) {
  write_file_atomically(photos_ + "/wide.png", encode_png(colourful(2300, 90)));
  const auto result = run_process(on_photos({"--tile", "256,whole=off", "--draw", "3,score=0"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(path_exists(folder_ / "out/drawn/1_wide.whole.jpg"));
  int count = 0;
  for ([[maybe_unused]] const auto& file :
       std::filesystem::directory_iterator(folder_ / "out/drawn")) {
    ++count;
  }
  EXPECT_EQ(count, 3);
  EXPECT_THAT(result.out, HasSubstr("drawn: 3"));
  // They are this program's to replace.
  ASSERT_EQ(run_process(on_photos({"--tile", "256", "--overwrite"})).exit_code, 0);
  EXPECT_FALSE(path_exists(folder_ / "out/drawn/1_wide.whole.jpg"));
}

TEST_F(TiledCommand, ASetOfTilesIsEvaluatedAsTheImagesThatItIsMadeOf) {
  write_tiny_shards(folder_ / "shards", 5);
  write_tiles(ShardSet(folder_ / "shards"), {.side_px = 64, .overlap = .2}, folder_ / "tiles");
  const auto packed = run_process(on_shards("tiles", {"--draw", "2,score=0"}));
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_THAT(packed.err, HasSubstr("of 5 images"));
  const auto cut = run_process(on_shards("shards", {"--tile", "64,whole=off"}, "cut"));
  ASSERT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_EQ(output("out/detections.json"), output("cut/detections.json"));
  EXPECT_EQ(output("out/metrics.json"), output("cut/metrics.json"));
  const auto refused = run_process(on_shards("tiles", {"--tile", "64"}, "again"));
  EXPECT_EQ(refused.exit_code, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("are tiles already"));
  EXPECT_EQ(run_process(on_shards("tiles", {"--tile", "merge=greedy-nmm"}, "greedy")).exit_code, 0);
  EXPECT_NE(output("out/detections.json"), output("greedy/detections.json"));
}

// The tiny network sees a shorter side of 96 px, a longer one of 128.
TEST_F(TiledCommand, WarnsOfImagesThatTheModelSeesMuchSmaller) {
  write_file_atomically(photos_ + "/a.png", encode_png(colourful(30, 20)));
  write_file_atomically(photos_ + "/b.png", encode_png(colourful(480, 240)));
  write_file_atomically(photos_ + "/c.png", encode_png(colourful(500, 260)));
  EXPECT_THAT(run_process(on_photos({})).err,
              HasSubstr("--images: images are 3.8 times as large as the model sees (480x240 -> "
                        "128x64): small objects vanish; --tile 96 detects on tiles in full "));
  EXPECT_THAT(run_process(on_photos({"--tile", "96"}, "tiled")).err, Not(HasSubstr("vanish")));
  std::filesystem::remove(photos_ + "/c.png");
  std::filesystem::remove(photos_ + "/b.png");
  EXPECT_THAT(run_process(on_photos({}, "small")).err, Not(HasSubstr("vanish")));
}

TEST_F(TiledCommand, KnowsTheTilesThatTheModelWasTrainedOn) {
  write_file_atomically(photos_ + "/a.png", encode_png(colourful(480, 240)));
  Checkpoint checkpoint = load_checkpoint(model_);
  checkpoint.config_json.pop_back();
  checkpoint.config_json += ",\"tile_px\":200}";
  save_checkpoint(folder_ / "tiles.pt", checkpoint);
  const auto err_with = [&](const std::vector<std::string>& more, const std::string& output) {
    std::vector<std::string> words = on_photos(more, output);
    words[2] = folder_ / "tiles.pt";
    const auto result = run_process(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(err_with({}, "whole"), HasSubstr("--tile 200 detects on tiles of the side that it"));
  EXPECT_THAT(err_with({"--tile", "100"}, "half"),
              HasSubstr("--tile 100: the model was trained on tiles of 200 px, and sees objects 2 "
                        "times as large here"));
  EXPECT_THAT(err_with({"--tile", "400"}, "double"), HasSubstr("2 times as small here"));
  EXPECT_THAT(err_with({"--tile", "100,180"}, "fits"), Not(HasSubstr("was trained on")));
}

// 16 bits a sample and four bands: of photographs neither.
TEST_F(TiledCommand, StretchTakesWhatIsRefusedWithoutIt) {
  const TiffLook look{
      .width = 150, .height = 120, .bits = 16, .samples = 4, .photometric = 1, .extra = {0, 0, 0}};
  std::vector<std::uint16_t> samples;
  for (int i = 0; i < look.width * look.height * look.samples; ++i) {
    samples.push_back(static_cast<std::uint16_t>(i * 7919 % 4001 + 9000));
  }
  write_file_atomically(photos_ + "/a.tif", encode_tiff(look, samples));
  const std::vector<std::vector<std::string>> ways{{}, {"--tile", "100"}};
  for (const auto& way : ways) {
    const std::string output_name = way.empty() ? "whole" : "tiled";
    const auto refused = run_process(on_photos(way, output_name));
    EXPECT_EQ(refused.exit_code, 65) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("16-bit samples"));
    EXPECT_THAT(refused.err, HasSubstr("; add --stretch 2,98"));
    std::vector<std::string> with = way;
    with.insert(with.end(), {"--stretch", "2,98", "--draw", "1,score=0"});
    const auto result = run_process(on_photos(with, output_name + "2"));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_FALSE(read_results(folder_ / (output_name + "2/detections.json")).empty());
    EXPECT_TRUE(path_exists(folder_ / (output_name + "2/drawn")));
    with[way.size() + 1] = "0,100";  // another evaluation
    const auto other = run_process(on_photos(with, output_name + "2"));
    EXPECT_EQ(other.exit_code, 78) << other.err;
    EXPECT_THAT(other.err, HasSubstr("stretch"));
  }
  EXPECT_EQ(run_process(on_photos({"--stretch", "98,2"})).exit_code, 64);
  EXPECT_THAT(run_process(on_shards("shards", {"--stretch", "2,98"})).err,
              HasSubstr("--stretch: has no effect with --data"));
}

TEST_F(TiledCommand, WritesGeojsonInTheCoordinatesOfAGeoTiff) {
  write_geotiff(
      photos_ + "/a.tif",
      {.width = 150, .height = 120, .scale = {.5, .5, 0}, .ties = {0, 0, 0, 600000, 5200000, 0}});
  const std::vector<std::string> geojson{"--tile", "100", "--output-format", "geojson"};
  const auto result = run_process(on_photos(geojson));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string text = output("out/detections.geojson");
  EXPECT_THAT(text, HasSubstr("FeatureCollection"));
  EXPECT_THAT(text, HasSubstr("6000"));
  std::filesystem::remove(photos_ + "/a.tif");
  write_file_atomically(photos_ + "/b.png", encode_png(colourful(150, 120)));
  const auto refused = run_process(on_photos(geojson, "none"));
  EXPECT_EQ(refused.exit_code, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("none of the images is a GeoTIFF"));
}

TEST_F(TiledCommand, RefusesWhatHasNoEffectAndWhatIsOutOfRange) {
  write_file_atomically(photos_ + "/a.png", encode_png(colourful(30, 20)));
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--tile", "overlap=0.3"},
                                             {"--tile", "whole=off"},
                                             {"--tile", "merge=greedy-nmm"},
                                             {"--tile", "31"},
                                             {"--tile", "100,17000"},
                                             {"--tile", "100,overlap=0.95"},
                                             {"--tile", "100,match-threshold=0"}}) {
    const auto result = run_process(on_photos(more));
    EXPECT_EQ(result.exit_code, 64) << more[0] << more[1] << result.err;
    EXPECT_THAT(result.err, HasSubstr("--tile"));
  }
}

}  // namespace
}  // namespace retina
