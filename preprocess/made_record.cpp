#include "preprocess/made_record.h"

#include "shared/base/hash.h"
#include "shared/image/row_reader.h"

namespace retina {

std::string hint_of_unsupported(const DecodeStatus& status, bool is_stretched,
                                const ImageBytes& bytes) {
  if (!status.unsupported) return "";
  if (!is_stretched && may_be_stretched(bytes)) return "--stretch 2,98 packs it";
  // As tiff.cpp calls floating-point, complex and 32-bit ones.
  if (status.problem.find("samples") == std::string::npos) return "";
  return "convert it to whole numbers first (gdal_translate -ot Byte -scale)";
}

MadeRecord bad_image(const PlannedImage& planned, const FileProblem& problem) {
  return {.bad = QuarantinedImage{.image_id = planned.id,
                                  .file_name = planned.file_name,
                                  .kind = problem.kind,
                                  .reason = problem.reason,
                                  .hint = problem.hint}};
}

FileProblem other_size(const ImageSize& found, const ImageSize& stated, bool is_turned,
                       bool is_applied) {
  FileProblem problem{.kind = "size",
                      .reason = cat("the image is ", found.width, "x", found.height,
                                    ", the annotations say ", stated.width, "x", stated.height)};
  if (!is_turned || found.width != stated.height || found.height != stated.width) return problem;
  problem.reason +=
      is_applied ? ", its size before the EXIF rotation" : ", its size after the EXIF rotation";
  problem.hint = is_applied ? "--exif ignore packs images as they are stored"
                            : "--exif apply turns images upright, as the annotations have them";
  return problem;
}

void encode_made(MadeRecord& made, const std::string& image) {
  made.record.image = image;
  made.bytes = encode_record(made.record);
  made.bytes_xxh3 = xxh3(made.bytes);
  made.record.image = {};
}

}  // namespace retina
