// What COCO files may say and hardly ever mean: boxes in another convention, boxes outside their
// image, an id that evaluation cannot match. Sentences for warnings; empty when there is no doubt.
#pragma once

#include <string>
#include <vector>

#include "shared/coco/instances.h"
#include "shared/coco/results.h"

namespace retina {

// Boxes are x, y, width, height in pixels. Tells, of those with an area in images with a size,
// whether they read better as corners, as shares of the image or as percent of it, else how many
// reach beyond their image by more than a pixel and 1 % of its side and how many have less than
// half their area in it, with the first one's image and annotation.
std::string doubtful_boxes(const std::vector<ImageInfo>& images, const AnnotationList& truth);
// How many detections reach beyond their image, in the same words, without a guess at the reason;
// those on other images are passed over.
std::string boxes_beyond(const Instances& truth, const std::vector<Detection>& detections);

// Boxes that an image has twice, with the same class: matching finds one of them at most.
std::string doubled_boxes(const std::vector<ImageInfo>& images, const AnnotationList& truth);

// Areas of boxes, crowds aside, that no outline inside them has: 0 or less, or more than the box.
// An outline's area is smaller than its box.
std::string impossible_areas(const std::vector<ImageInfo>& images, const AnnotationList& truth);

// What the three above say of ground truth.
std::vector<std::string> box_notes(const std::vector<ImageInfo>& images,
                                   const AnnotationList& truth);
std::vector<std::string> box_notes(const Instances& truth);

// pycocotools takes id 0 for "no match": a box that is never found.
std::string unmatchable_annotation(const std::vector<ImageInfo>& images,
                                   const AnnotationList& truth);

// Images of one file: half of the boxes on each would be background. Empty names are passed over.
std::string shared_files(const std::vector<ImageInfo>& images);

// CVAT's boxes with an angle.
std::string rotated_boxes(const Instances& truth);

}  // namespace retina
