#include "train/scaling_setup.h"

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
  const auto differs = [&](const char* key, auto TrainOptions::*option, const auto& value) {
    TrainOptions options;
    options.*option = value;
    const ScalingSetup other = setup_of(options);
    EXPECT_NE(other.at(key), usual.at(key)) << key;
  };
  differs("wire", &TrainOptions::wire, ElementType::kBFloat16);
  differs("deterministic-reduce", &TrainOptions::deterministic_reduce, true);
  differs("overlap-reduce", &TrainOptions::overlap_reduce, false);
  differs("bucket-mb", &TrainOptions::bucket_mb, "4");
  differs("sync-bn", &TrainOptions::sync_bn, true);
  differs("min-sides", &TrainOptions::min_sides_px, std::vector<std::int64_t>{640, 800});
  differs("images a rank", &TrainOptions::images_per_step, 4);
  EXPECT_EQ(setup_of(plain), usual);
}

TEST(ScalingSetup, RefusesUnevenShares) {
  TrainOptions options;
  options.images_per_step = 16;
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
