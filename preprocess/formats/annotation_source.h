// The annotation files that coco-pack reads, whatever their format, as COCO's instances.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/choices.h"
#include "shared/coco/instances.h"

namespace retina {

enum class AnnotationFormat {
  kCoco,  // instances JSON
  kVoc,   // Pascal VOC's XML files, one an image (Everingham et al. 2010): their folder
          // Annotations, or a list ImageSets/Main/NAME.txt beside it, a name without .xml a line
  kCsv,   // keras-retinanet's "path,x1,y1,x2,y2,class", one a box, "path,,,,," without any
  kYolo,  // Ultralytics' data.yaml; a text file an image beside the pictures
};

inline const Choices<AnnotationFormat> kAnnotationFormats = {{"coco", AnnotationFormat::kCoco},
                                                             {"voc", AnnotationFormat::kVoc},
                                                             {"csv", AnnotationFormat::kCsv},
                                                             {"yolo", AnnotationFormat::kYolo}};

struct AnnotationSource {
  AnnotationFormat format = AnnotationFormat::kCoco;
  std::string path{};     // the file, or VOC's folder or list
  std::string classes{};  // of kCsv, and of kVoc where given: file of "class,id", one a line
  std::string images{};   // folder that file names are relative to
  bool upright = false;   // sizes are those of pictures turned upright by their EXIF data
  int thread_count = 1;   // where picture sizes are read from the pictures
};

struct ReadAnnotations {
  Instances instances{};
  // Of all files that were read, by their names and content.
  std::uint64_t size_bytes = 0, xxh3 = 0;
};

// What a source says that is not COCO's JSON, which read_instances() reads. Boxes become [x1, y1,
// x2 - x1, y2 - y1] in pixels, areas are theirs, nothing is a crowd. Ids are 1, 2, ... of images by
// name and of boxes by image and line; of VOC's classes without `classes` 1, 2, ... by name among
// those of all its XML files, whatever the list; of YOLO's their index.
//
// CSV and YOLO do not say how large a picture is: that is read from it. A picture that has no
// readable size gets 0 x 0, which no picture has: it is left out with its own reason later.
// Throws kNoInput, kIo, and kData naming the file, the line and what is wrong there.
ReadAnnotations read_annotations(const AnnotationSource& source);

}  // namespace retina
