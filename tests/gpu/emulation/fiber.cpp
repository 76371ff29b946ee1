#include "tests/gpu/emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

// retina_switch_stack(here, there): keeps the registers that a call must keep on this stack and its
// pointer in *here, and goes on where `there` was kept. C's longjmp() is no way: it checks that it
// stays on one stack, and sanitizers watch it.
extern "C" void retina_switch_stack(void** here, void* there);
#if defined(__x86_64__)
asm(R"(
.text
.globl retina_switch_stack
.type retina_switch_stack, @function
retina_switch_stack:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size retina_switch_stack, . - retina_switch_stack
)");
constexpr std::size_t kFrame = 8, kReturn = 6;  // words, and which of them is where to go on
#elif defined(__aarch64__)
asm(R"(
.text
.globl retina_switch_stack
.type retina_switch_stack, %function
retina_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size retina_switch_stack, . - retina_switch_stack
)");
constexpr std::size_t kFrame = 20, kReturn = 11;
#endif

namespace retina::emulation {
namespace {

Fiber* running = nullptr;

const std::size_t kGuardBytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

}  // namespace

Fiber::Fiber() {
  void* const memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  mprotect(memory, kGuardBytes, PROT_NONE);
  stack_ = static_cast<char*>(memory) + kGuardBytes;
}

Fiber::~Fiber() {
  munmap(stack_ - kGuardBytes, kGuardBytes + kStackBytes);
}

void Fiber::start(void (*body)()) {
  body_ = body;
  if (ended_) {
    ended_ = false;  // run_bodies() takes the next
    return;
  }
  void** const frame = reinterpret_cast<void**>(stack_ + kStackBytes) - kFrame;
  std::fill_n(frame, kFrame, nullptr);
  frame[kReturn] = reinterpret_cast<void*>(&run_bodies);
  inside_ = frame;
}

bool Fiber::resume() {
  running = this;
  retina_switch_stack(&outside_, inside_);
  return ended_;
}

void Fiber::run_bodies() {
  for (;;) {
    running->body_();
    running->ended_ = true;
    pause();
  }
}

void Fiber::pause() {
  Fiber* const self = running;
  retina_switch_stack(&self->inside_, self->outside_);
}

}  // namespace retina::emulation
