#include "shared/data/image_source.h"

#include "shared/data/record_image.h"

namespace retina {

std::optional<FileProblem> ShardImages::decode(std::size_t place, JpegDecoder& decoder,
                                               Image& out) const {
  decode_image(shards_.read(place), shards_.folder(), decoder, out);
  return std::nullopt;
}

Sample ImageSamples::load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                          PixelTarget pixels) const {
  const Slot& slot = request.slots[place];
  const IndexEntry& entry = images_.index()[slot.record];
  Sample sample = sized_sample(request, place, {.width = entry.width, .height = entry.height});
  sample.image_id = entry.image_id;
  sample.file_name = entry.file_name;
  Image image;
  sample.problem = images_.decode(slot.record, decoder, image);
  if (!sample.problem) put_pixels(image, request, sample, normalisation_, pixels);
  return sample;
}

}  // namespace retina
