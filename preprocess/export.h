// `coco-pack --inspect SHARDS --export-annotations FILE.json`: a packed set's labels as COCO
// instances JSON, whatever format they came from, for any other tool.
#pragma once

#include <string>

#include "shared/coco/instances.h"
#include "shared/shard/shard_set.h"

namespace retina {

// The set's images by ascending id with their file names, annotations with the ids, f64 boxes and
// areas of the records, and categories. COCO has no place for the class of a whole image: in a
// classification set each image has one annotation of that class, whose box is the image and whose
// id is the image's. Throws kData when a record is damaged.
Instances exported_instances(const ShardSet& set);

// Throws kCannotCreate where `path` is a file that export_annotations did not write.
void check_may_export(const std::string& path);

// Writes exported_instances, whole or not at all; the same set makes the same bytes. Throws
// kCannotCreate, kIo.
void export_annotations(const ShardSet& set, const std::string& path);

}  // namespace retina
