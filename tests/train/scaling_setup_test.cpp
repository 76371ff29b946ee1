#include "train/start/scaling_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "tests/train/plan/no_images.h"

namespace retina {
namespace {

ScalingSetup setup_of(const TrainOptions& options) {
  const NoImages source;
  return scaling_data(options, {.source = source}, 2, c10::kCPU).setup;
}

TEST(ScalingSetup, DiffersByWhatAStepsTimeDependsOn) {
  const TrainOptions plain;
  const ScalingSetup usual = setup_of(plain);
  const auto differs = [&](const char* key, const auto& change) {
    TrainOptions options;
    change(options);
    const ScalingSetup other = setup_of(options);
    EXPECT_NE(other.at(key), usual.at(key)) << key;
  };
  using Options = TrainOptions;
  differs("wire", [](Options& o) { o.distribution.buckets.wire.type = ElementType::kBFloat16; });
  differs("deterministic-reduce", [](Options& o) { o.distribution.buckets.wire.ordered = true; });
  differs("overlap-reduce", [](Options& o) { o.distribution.buckets.overlap = false; });
  differs("bucket-mb", [](Options& o) { o.distribution.bucket_mb = "4"; });
  differs("sync-bn", [](Options& o) { o.model.sync_bn = true; });
  differs("min-sides", [](Options& o) { o.data.min_sides_px = {640, 800}; });
  differs("images a rank", [](Options& o) { o.length.images_per_step = 4; });
  EXPECT_EQ(setup_of(plain), usual);
}

TEST(ScalingSetup, RefusesUnevenShares) {
  TrainOptions options;
  options.length.images_per_step = 16;
  for (const int ranks : {1, 2, 4, 16}) EXPECT_NO_THROW(check_even_shares(options, ranks));
  try {
    check_even_shares(options, 3);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_THAT(error.what(), testing::HasSubstr("3 ranks share 16 images per step unevenly"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("--images-per-step 15 or 18"));
  }
}

}  // namespace
}  // namespace retina
