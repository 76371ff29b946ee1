#include "evaluate/drawn_files.h"

#include "shared/data/record_image.h"
#include "shared/report/report.h"

namespace retina {

std::map<std::int64_t, std::string> drawn_files(const ShardSet& shards,
                                                const std::vector<std::int64_t>& image_ids,
                                                const ImageFileOptions& options) {
  std::map<std::int64_t, std::string> files;
  for (const std::int64_t id : image_ids) files[id];
  JpegDecoder decoder;
  Image image;
  const auto& index = shards.index();
  for (std::size_t place = 0; place < index.size(); ++place) {
    const auto file = files.find(index[place].image_id);
    if (file == files.end()) continue;
    decode_image(shards.read(place), shards.folder(), decoder, image);
    file->second = embed_image(image, "", options.max_side_px).jpeg;
    options.on_image();
  }
  return files;
}

}  // namespace retina
