// `coco-pack --inspect`: what a shard set holds, as text; one record, as text and as an image; all
// labels as COCO instances JSON, whatever format they came from, for any other tool.
#pragma once

#include <string>

#include "preprocess/options.h"

namespace retina {

// Returns the text for stdout: the set's counts, shards, categories and image sizes, or the image
// that the options name, by its id, its file name, how that ends behind a slash, or both; of a set
// of tiles, the image's tiles, or the one that is named with its place ("17.jpg+1600+0"). Writes
// the files that the options ask for, each whole or not at all: the image with its boxes (crowds
// and partial ones dashed); the labels, of tiles those of the whole images, by ascending id, with
// the ids, f64 boxes and areas of the records, the same bytes of the same set. COCO has no place
// for the class of a whole image: in a classification set each image has one annotation of that
// class, whose box is the image and whose id is the image's.
//
// Throws kNoInput where no image is meant, with the reason when it is in quarantine; kUsage when
// several images have the name or names that end so, or several tiles are to be drawn;
// kCannotCreate where a file to write is there and not ours; kData when a record is damaged; kIo.
std::string inspect(const InspectOptions& options);

}  // namespace retina
