// retina-eval --tile, and sets of tiles.
#include <filesystem>

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
  const auto result = run_process(
      on_photos({"--tile", "256", "--draw", "3", "--draw-score", "0", "--tile-whole", "off"}));
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
  const auto packed = run_process(on_shards("tiles", {"--draw", "2", "--draw-score", "0"}));
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_THAT(packed.err, HasSubstr("of 5 images"));
  const auto cut = run_process(on_shards("shards", {"--tile", "64", "--tile-whole", "off"}, "cut"));
  ASSERT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_EQ(output("out/detections.json"), output("cut/detections.json"));
  EXPECT_EQ(output("out/metrics.json"), output("cut/metrics.json"));
  const auto refused = run_process(on_shards("tiles", {"--tile", "64"}, "again"));
  EXPECT_EQ(refused.exit_code, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("are tiles already"));
  EXPECT_EQ(run_process(on_shards("tiles", {"--tile-merge", "nms"}, "nms")).exit_code, 0);
  EXPECT_NE(output("out/detections.json"), output("nms/detections.json"));
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
       std::vector<std::vector<std::string>>{{"--tile-overlap", "0.3"},
                                             {"--tile-whole", "off"},
                                             {"--tile-merge", "nms"},
                                             {"--tile", "63"},
                                             {"--tile", "100,17000"},
                                             {"--tile", "100", "--tile-overlap", "0.95"},
                                             {"--tile", "100", "--tile-match-threshold", "0"}}) {
    const auto result = run_process(on_photos(more));
    EXPECT_EQ(result.exit_code, 64) << more[0] << more[1] << result.err;
    EXPECT_THAT(result.err, HasSubstr("--tile"));
  }
}

}  // namespace
}  // namespace retina
