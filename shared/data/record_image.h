// A record's pixels, checked: the one rule for all code that reads a set's images.
#pragma once

#include <string>

#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "shared/shard/record.h"

namespace retina {

// Decodes the record's image into `out`, whose storage is reused. Throws Error{kData} with
// `subject` (the set, or the record's place in it) if the policy on damage refuses it (jpeg.h), or
// if its size is not the record's.
void decode_image(const Record& record, const std::string& subject, JpegDecoder& decoder,
                  Image& out);

}  // namespace retina
