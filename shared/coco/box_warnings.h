// Warnings about COCO files that are valid but hardly ever intended: boxes in another convention,
// boxes outside their image, an id that evaluation cannot match. Sentences for warnings; empty if
// there is nothing to warn about.
#pragma once

#include <string>
#include <vector>

#include "shared/coco/instances.h"
#include "shared/coco/results.h"

namespace retina {

// Returns a warning about boxes that are not x, y, width, height in pixels. It says, of those with
// an area in images with a size, whether they read better as corners or as fractions of the image,
// else how many extend beyond their image by more than a pixel and 1 % of its side and how many
// have less than half their area in it, with the first one's image and annotation.
std::string box_format_warning(const std::vector<ImageInfo>& images, const AnnotationList& truth);
// Returns a warning about detections that extend beyond their image, in the same words, without a
// guess at the reason; passes over those on other images.
std::string boxes_outside_warning(const Instances& truth, const std::vector<Detection>& detections);

// Returns a warning about boxes that an image has twice, with the same class: matching finds at
// most one of them.
std::string duplicate_box_warning(const std::vector<ImageInfo>& images,
                                  const AnnotationList& truth);

// Returns a warning about areas of boxes, crowds aside, that no outline inside them can have: 0 or
// less, or more than the box. An outline's area is smaller than its box.
std::string area_warning(const std::vector<ImageInfo>& images, const AnnotationList& truth);

// Returns the three warnings above for ground truth.
std::vector<std::string> box_notes(const std::vector<ImageInfo>& images,
                                   const AnnotationList& truth);
std::vector<std::string> box_notes(const Instances& truth);

// Returns a warning about an annotation with id 0, which pycocotools takes for "no match": a box
// that is never found.
std::string annotation_0_warning(const std::vector<ImageInfo>& images, const AnnotationList& truth);

// Returns a warning about images that share a file: half of the boxes on each would be background.
// Passes over empty names.
std::string shared_files(const std::vector<ImageInfo>& images);

// Returns a warning about CVAT's boxes with an angle.
std::string rotated_boxes(const Instances& truth);

}  // namespace retina
