#include "shared/comm/float16_loops.h"

#include "shared/base/error.h"
#include "shared/comm/float16.h"

namespace retina {
namespace {

struct Half {
  static constexpr unsigned kExponent = 0x7c00;
  static float load(std::uint16_t bits) { return float_from_float16(bits); }
  static std::uint16_t store(float value) { return float16_from_float(value); }
};

struct Brain {
  static constexpr unsigned kExponent = 0x7f80;
  static float load(std::uint16_t bits) { return float_from_bfloat16(bits); }
  static std::uint16_t store(float value) { return bfloat16_from_float(value); }
};

template <class Format>
struct Narrow {
  const float* in;
  float scale;
  std::uint16_t* out;
  void operator()(std::size_t i) const { out[i] = Format::store(in[i] * scale); }
};

template <class Format>
struct Widen {
  const std::uint16_t* in;
  float scale;
  float* out;
  void operator()(std::size_t i) const { out[i] = Format::load(in[i]) * scale; }
};

template <class Format>
struct Add {
  const std::uint16_t* in;
  std::uint16_t* both;
  void operator()(std::size_t i) const {
    both[i] = Format::store(Format::load(in[i]) + Format::load(both[i]));
  }
};

// The same loop for any x86-64 and, four times as fast, for one with AVX2.
template <class Step>
void run_plain(const Step& step, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) step(i);
}

#ifdef __x86_64__
template <class Step>
[[gnu::target("avx2")]] void run_avx2(const Step& step, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) step(i);
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

template <class Step>
void run(const Step& step, std::size_t count) {
  if (has_avx2()) {
    run_avx2(step, count);
  } else {
    run_plain(step, count);
  }
}
#else
template <class Step>
void run(const Step& step, std::size_t count) {
  run_plain(step, count);
}
#endif

bool is_half(ElementType type) {
  RETINA_CHECK(type == ElementType::kFloat16 || type == ElementType::kBFloat16, element_name(type));
  return type == ElementType::kFloat16;
}

unsigned exponent_mask(ElementType type) {
  return is_half(type) ? Half::kExponent : Brain::kExponent;
}

}  // namespace

void narrow(const float* in, std::size_t count, ElementType type, float scale, std::uint16_t* out) {
  if (is_half(type)) {
    run(Narrow<Half>{in, scale, out}, count);
  } else {
    run(Narrow<Brain>{in, scale, out}, count);
  }
}

void widen(const std::uint16_t* in, std::size_t count, ElementType type, float scale, float* out) {
  if (is_half(type)) {
    run(Widen<Half>{in, scale, out}, count);
  } else {
    run(Widen<Brain>{in, scale, out}, count);
  }
}

void add(const std::uint16_t* in, std::uint16_t* both, std::size_t count, ElementType type) {
  if (is_half(type)) {
    run(Add<Half>{in, both}, count);
  } else {
    run(Add<Brain>{in, both}, count);
  }
}

bool is_finite(std::uint16_t bits, ElementType type) {
  const unsigned mask = exponent_mask(type);
  return (bits & mask) != mask;
}

bool all_finite(const std::uint16_t* in, std::size_t count, ElementType type) {
  const unsigned mask = exponent_mask(type);
  unsigned found = 0;  // no early end: so it is vectorised
  for (std::size_t i = 0; i < count; ++i) found |= (in[i] & mask) == mask ? 1U : 0U;
  return found == 0;
}

}  // namespace retina
