// A small data set with real images and small random networks, for tests of detection and
// classification.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "shared/coco/instances.h"
#include "shared/image/tile_grid.h"
#include "shared/model/classifier.h"
#include "shared/model/retinanet.h"
#include "shared/shard/shard_set.h"

namespace retina {

// Writes `image_count` JPEGs of coloured boxes in four sizes as one shard, with categories cat (3),
// dog (5) and cow (9); every third image has a crowd, every fifth no box. Returns what it wrote,
// images in ascending id order. For classification: the same images without boxes, image
// 1000 + i of class i mod 3; returns the images alone.
Instances write_tiny_shards(const std::string& folder, int image_count,
                            Task task = Task::kDetection);

// Writes the images of `shards` as a set of tiles, whose pixels are those of the decoded images. A
// tile has the boxes that it shows half of, clipped; the others there are partial.
void write_tiles(const ShardSet& shards, const TileGrid& grid, const std::string& folder);

// ResNet-18 for those classes, 96..128 px, random weights of this seed. Scores are near .01.
RetinaNet tiny_network(std::uint64_t seed);

// ResNet-18 for those classes, squares of 64 of 73 px, random weights of this seed.
std::unique_ptr<Classifier> tiny_classifier(std::uint64_t seed);

// The network with its classes as a checkpoint file.
void write_tiny_checkpoint(const std::string& path, const Network& network);

}  // namespace retina
