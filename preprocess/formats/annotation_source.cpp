#include "preprocess/formats/annotation_source.h"

#include <utility>

#include "preprocess/formats/parts.h"
#include "shared/base/error.h"

namespace retina {

namespace {

Instances read(const AnnotationSource& source, AnnotationFiles& files) {
  switch (source.format) {
    case AnnotationFormat::kVoc:
      return read_voc(source, files);
    case AnnotationFormat::kCsv:
      return read_csv(source, files);
    case AnnotationFormat::kYolo:
      return read_yolo(source, files);
    case AnnotationFormat::kCoco:
      break;
  }
  RETINA_CHECK(false, "read_instances() reads COCO's JSON");
}

}  // namespace

ReadAnnotations read_annotations(const AnnotationSource& source) {
  AnnotationFiles files;
  Instances instances = read(source, files);
  if (instances.images.empty()) {
    throw Error(ErrorKind::kData, cat(source.path, ": the data set is empty (it lists no images)"));
  }
  if (instances.categories.empty()) {
    throw Error(ErrorKind::kData,
                cat(source.path, ": the data set has no classes (no box has one)"));
  }
  return {
      .instances = std::move(instances), .size_bytes = files.size_bytes(), .xxh3 = files.xxh3()};
}

}  // namespace retina
