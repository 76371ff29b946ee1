// retina-convert --import: weights of torchvision become a checkpoint of ours.
#pragma once

#include <string>

#include "convert/options.h"

namespace retina {

// Reads, recognises, selects the class rows, checks that every tensor has its place, writes the
// checkpoint. Returns what to print: one line when the output is there already from the same
// inputs. Throws kNoInput (a file is missing), kData (not a file that can be imported), kConfig
// (classes and categories differ; the output exists and was made differently), kCannotCreate, kIo.
std::string import_weights(const ConvertOptions& options);

}  // namespace retina
