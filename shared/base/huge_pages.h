// Large arrays on large pages: making a small page costs more time than filling it.
#pragma once

#include <cstddef>
#include <vector>

namespace retina {

// A hint to the kernel about memory that is about to be written for the first time.
void use_huge_pages(void* begin, std::size_t size_bytes);

// About all that `reserve` has given to it.
template <class T>
void use_huge_pages(std::vector<T>& storage) {
  use_huge_pages(storage.data(), storage.capacity() * sizeof(T));
}

}  // namespace retina
