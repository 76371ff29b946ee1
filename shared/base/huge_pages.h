// Large arrays on large pages: making a small page costs more time than filling it.
#pragma once

#include <cstddef>
#include <vector>

namespace retina {

// Tells the kernel that this memory is about to be written for the first time; a hint.
void use_huge_pages(void* begin, std::size_t size_bytes);

// Gives the hint for all memory that `reserve` has given to the vector.
template <class T>
void use_huge_pages(std::vector<T>& storage) {
  use_huge_pages(storage.data(), storage.capacity() * sizeof(T));
}

}  // namespace retina
