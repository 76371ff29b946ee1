#include "shared/data/record_image.h"

#include "shared/base/error.h"
#include "shared/base/printable.h"

namespace retina {

void decode_image(const Record& record, const std::string& subject, JpegDecoder& decoder,
                  Image& out) {
  if (record.encoding == ImageEncoding::kRaw) {
    out.width = record.width;
    out.height = record.height;
    out.rgb.assign(record.image.begin(), record.image.end());
    return;
  }
  const DecodeStatus status = decoder.decode(record.image, out);
  std::string problem = unusable_reason(status);
  if (problem.empty() && (out.width != record.width || out.height != record.height)) {
    problem = cat("wrong size (got ", out.width, "x", out.height, ", want ", record.width, "x",
                  record.height, ")");
  }
  if (problem.empty()) return;
  throw Error(
      ErrorKind::kData,
      cat(subject, ": the image of ", image_name(record.image_id, record.file_name), ": ", problem),
      "run coco-pack --verify on this folder, then pack it again");
}

}  // namespace retina
