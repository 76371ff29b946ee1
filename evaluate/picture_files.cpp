#include "evaluate/picture_files.h"

#include "shared/data/record_picture.h"
#include "shared/report/report.h"

namespace retina {

std::map<std::int64_t, std::string> picture_files(const ShardSet& shards,
                                                  const std::vector<std::int64_t>& image_ids,
                                                  const PictureFileOptions& options) {
  std::map<std::int64_t, std::string> files;
  for (const std::int64_t id : image_ids) files[id];
  JpegDecoder decoder;
  Image image;
  const auto& index = shards.index();
  for (std::size_t place = 0; place < index.size(); ++place) {
    const auto file = files.find(index[place].image_id);
    if (file == files.end()) continue;
    decode_picture(shards.read(place), shards.folder(), decoder, image);
    file->second = make_picture(image, "", options.max_side_px).jpeg;
    options.on_picture();
  }
  return files;
}

}  // namespace retina
