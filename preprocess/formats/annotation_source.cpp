#include "preprocess/formats/annotation_source.h"

#include "preprocess/formats/annotation_files.h"
#include "preprocess/formats/class_names.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

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
    case AnnotationFormat::kXview:
      return {.instances = read_xview(source, files)};
    case AnnotationFormat::kDota:
      return {.instances = read_dota(source, files)};
    case AnnotationFormat::kFolders:
      return read_folders(source, files);
    case AnnotationFormat::kCifar10:
      return read_cifar10(source, files);
    case AnnotationFormat::kCoco:
      break;
  }
  RETINA_CHECK(false, "read_instances() reads COCO's JSON");
}

// Names are kept in the set, and pages and JSON take no other bytes. Those in texts are UTF-8.
void require_utf8_files(const std::string& folder, const Instances& instances) {
  for (const ImageInfo& image : instances.images) {
    if (is_utf8(image.file_name)) continue;
    throw Error(ErrorKind::kData,
                cat(folder, "/", escaped(image.file_name), ": the file's name is not UTF-8"),
                "rename the file, or all of them with convmv -f ITS_ENCODING -t UTF-8");
  }
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
  require_utf8_files(source.images, read_now.instances);
  const Categories& categories = read_now.instances.categories;
  std::map<std::int64_t, std::int64_t> count_of;  // by category id
  for (const Annotation& one : read_now.instances.annotations) ++count_of[one.category_id];
  for (const int label : read_now.image_labels) {
    ++count_of[categories.at(static_cast<std::size_t>(label)).id];
  }
  warn_of_alike_classes(name, categories, std::move(count_of),
                        read_now.image_labels.empty() ? "boxes" : "images");
  read_now.size_bytes = files.size_bytes();
  read_now.xxh3 = files.xxh3();
  return read_now;
}

}  // namespace retina
