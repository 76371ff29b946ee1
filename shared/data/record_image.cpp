#include "shared/data/record_image.h"

#include <optional>

#include "shared/base/error.h"
#include "shared/base/image_folder.h"
#include "shared/base/printable.h"

namespace retina {

void decode_image(const Record& record, const std::string& subject, JpegDecoder& decoder,
                  Image& out) {
  const auto problem = unless_too_large([&]() -> std::optional<FileProblem> {
    if (record.encoding == ImageEncoding::kRaw) {
      out.width = record.width;
      out.height = record.height;
      out.rgb.assign(record.image.begin(), record.image.end());
      return std::nullopt;
    }
    const std::string reason = unusable_reason(decoder.decode(record.image, out));
    if (!reason.empty()) return FileProblem{.reason = reason};
    if (out.width == record.width && out.height == record.height) return std::nullopt;
    return FileProblem{.reason = cat("wrong size (got ", out.width, "x", out.height, ", want ",
                                     record.width, "x", record.height, ")")};
  });
  if (!problem) return;
  throw Error(ErrorKind::kData,
              cat(subject, ": the image of ", image_name(record.image_id, record.file_name), ": ",
                  problem->reason),
              "run coco-pack --verify on this folder, then pack it again");
}

}  // namespace retina
