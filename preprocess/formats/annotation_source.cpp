#include "preprocess/formats/annotation_source.h"

#include <utility>

#include "preprocess/formats/parts.h"
#include "shared/base/error.h"

namespace retina {

namespace {

ReadAnnotations read(const AnnotationSource& source, AnnotationFiles& files) {
  switch (source.format) {
    case AnnotationFormat::kVoc:
      return {.instances = read_voc(source, files)};
    case AnnotationFormat::kCsv:
      return {.instances = read_csv(source, files)};
    case AnnotationFormat::kYolo:
      return {.instances = read_yolo(source, files)};
    case AnnotationFormat::kFolders:
      return read_folders(source, files);
    case AnnotationFormat::kCifar10:
      return read_cifar10(source, files);
    case AnnotationFormat::kCoco:
      break;
  }
  RETINA_CHECK(false, "read_instances() reads COCO's JSON");
}

}  // namespace

Task task_of(AnnotationFormat format) {
  const bool has_classes =
      format == AnnotationFormat::kFolders || format == AnnotationFormat::kCifar10;
  return has_classes ? Task::kClassification : Task::kDetection;
}

ReadAnnotations read_annotations(const AnnotationSource& source) {
  AnnotationFiles files;
  ReadAnnotations read_now = read(source, files);
  const std::string& name = source.path.empty() ? source.images : source.path;
  if (read_now.instances.images.empty()) {
    throw Error(ErrorKind::kData, cat(name, ": the data set is empty (it lists no images)"));
  }
  if (read_now.instances.categories.empty()) {
    throw Error(ErrorKind::kData, cat(name, ": the data set has no classes (no box has one)"));
  }
  read_now.size_bytes = files.size_bytes();
  read_now.xxh3 = files.xxh3();
  return read_now;
}

}  // namespace retina
