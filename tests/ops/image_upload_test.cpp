#include "shared/ops/image_upload.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "shared/data/loader.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

// Two images of noise.
class TwoImages : public SampleSource {
 public:
  TwoImages() {
    const RandomStream random{.seed = 5, .use = RandomUse::kTest};
    std::uint64_t draw = 0;
    for (const auto& [width, height] : {std::pair{70, 40}, std::pair{30, 90}}) {
      index_.push_back({.image_id = width, .width = width, .height = height});
      Image& image = images_.emplace_back(width, height);
      for (auto& byte : image.rgb) byte = static_cast<std::uint8_t>(random.below(draw++, 256));
    }
  }
  const ImageIndex& index() const override { return index_; }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder&,
              PixelTarget pixels) const override {
    const Image& image = images_[request.slots[place].record];
    const Sample sample = sized_sample(request, place, {image.width, image.height});
    put_pixels(image, request, sample, {}, pixels);
    return sample;
  }

 private:
  ImageIndex index_;
  std::vector<Image> images_;
};

at::Tensor uploaded(PixelForm form) {
  const TwoImages source;
  const Warp turned = {.source_of = {{0.9, 0.2, 0, -0.2, 0.9, 0.1}}, .fill = Fill::kConstant};
  bool asked = false;
  BatchLoader loader(source, {.threads = 1, .form = form}, [&]() -> std::optional<BatchRequest> {
    if (std::exchange(asked, true)) return std::nullopt;
    return BatchRequest{.slots = {{.record = 0, .flip = true},
                                  {.record = 1},
                                  {.record = 1, .flip = true, .warp = turned}},
                        .frame = {.min_side_px = 48, .max_side_px = 96},
                        .padded = {96, 96}};
  });
  const std::optional<Batch> batch = loader.next();
  ImageUpload upload(c10::kCPU, {}, at::kFloat);
  return upload.images(batch.value()).clone();
}

TEST(ImageUpload, MakesTheSameImagesOfBothForms) {
  const at::Tensor images = uploaded(PixelForm::kStored);
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{3, 3, 96, 96}));
  EXPECT_TRUE(images.equal(uploaded(PixelForm::kNormalised)));
  EXPECT_GT(images.abs().sum().item<double>(), 1000);
}

}  // namespace
}  // namespace retina
