// The annotation files that coco-pack reads, whatever their format, as COCO's instances; of formats
// for classification, the images with the class of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/choices.h"
#include "shared/coco/instances.h"
#include "shared/shard/manifest.h"

namespace retina {

enum class AnnotationFormat {
  kCoco,   // instances JSON
  kVoc,    // Pascal VOC's XML files, one an image (Everingham et al. 2010): their folder
           // Annotations, or a list ImageSets/Main/NAME.txt beside it, a name without .xml a line
  kCsv,    // a line a box: keras-retinanet's, DeepForest's, Open Images', see csv.cpp
  kYolo,   // Ultralytics' data.yaml; a text file an image beside the images
  kXview,  // xView's GeoJSON, a feature a box (Lam et al. 2018)
  kDota,   // DOTA's folder labelTxt (Xia et al. 2018): a text file an image, boxes by four corners
  kFolders,  // classification: a folder of images for each class (ImageNet's training set), or
             // one folder of all images with a file that tells their classes (its validation set)
  kCifar10,  // classification: the binary version of CIFAR-10, see cifar10.h
};

inline const Choices<AnnotationFormat> kAnnotationFormats = {
    {"coco", AnnotationFormat::kCoco},       {"voc", AnnotationFormat::kVoc},
    {"csv", AnnotationFormat::kCsv},         {"yolo", AnnotationFormat::kYolo},
    {"xview", AnnotationFormat::kXview},     {"dota", AnnotationFormat::kDota},
    {"folders", AnnotationFormat::kFolders}, {"cifar10", AnnotationFormat::kCifar10}};

// Returns the task that a set of this format is for.
Task task_of(AnnotationFormat format);

struct AnnotationSource {
  AnnotationFormat format = AnnotationFormat::kCoco;
  std::string path{};  // the file, or VOC's folder or list; kFolders: empty, or the images' classes
  // File of classes, one a line; empty: none given. kCsv, kVoc, kDota: "class,id" or a name.
  // kXview: "73:Building" or "Building,73". kFolders: names in the order of the labels; a line that
  // begins with a WordNet id ("n01440764 tench, Tinca tinca") names the class by that id.
  std::string classes{};
  std::string images{};  // folder that file names are relative to; kCifar10: or a batch file
  ExifPolicy exif = ExifPolicy::kIgnore;  // with kApply sizes are those of upright images
  bool by_rows = false;                   // no image is ever held whole: their size has no limit
  bool convert = false;                   // kFolders: PNG, TIFF and WebP are images, too
  int thread_count = 1;                   // threads that read sizes from the images
};

struct ReadAnnotations {
  Instances instances{};
  // Dense label of each image's class, from formats for classification; `instances` then has no
  // annotations and no sizes: each image has its own.
  std::vector<int> image_labels{};
  // Size of all files that were read, and hash of their names and content.
  std::uint64_t size_bytes = 0, xxh3 = 0;
};

// Reads a source that is not COCO's JSON, which read_instances() reads. Boxes become [x1, y1,
// x2 - x1, y2 - y1] in pixels, areas are theirs, of CSV what a column says is a crowd and else
// nothing. Ids are 1, 2, ... of images by name and of boxes by image and line; of classes without
// `classes` 1, 2, ... by name, of VOC's among those of all its XML files, whatever the list; of
// YOLO's their index; of xView's their type_id; of kFolders and kCifar10 1, 2, ... in the order of
// their labels.
//
// kFolders: without `classes`, labels are the places of ROOT's sub-folders by the bytes of their
// names, as torchvision's ImageFolder has them. `path` tells the classes of images anywhere below
// ROOT: a file of lines "FILE NAME,CLASS" (or Kaggle's "NAME,CLASS and its boxes"), whose classes
// are by name where there is no `classes`, or of one class id a line, the class's line in
// `classes`, for the images in the order of their names (ImageNet's own ground truth). What is
// skipped is told in the log.
//
// XML and YAML are decoded from what they declare, see text_encoding.h; other names must be UTF-8.
// Files that is_clutter() are never read. VOC's images go by <filename>, and without it by the XML
// file's name.
//
// Leaves out, with a warning, xView's boxes whose type_id is not in `classes`, and without it those
// of 75 and 82, which are no classes. DOTA's boxes become the hulls of their corners.
//
// Reads from an image the size that CSV, YOLO, xView or DOTA does not state. An image that has no
// readable size gets 0 x 0, which no image has: it is quarantined with its own reason later. Throws
// kNoInput, kIo, and kData naming the file, the line and what is wrong there.
ReadAnnotations read_annotations(const AnnotationSource& source);

}  // namespace retina
