// The frame of every main(): runs the body, turns exceptions into one line on stderr and the exit
// code of their kind; likewise a mapped file that cannot be read (signals.h), a write that a file
// size limit (ulimit -f) refuses, and results that stdout does not take. A reader of stdout or
// stderr that goes away (`| head`) costs no run: what it no longer reads is dropped. Standard
// streams that came closed are /dev/null before anything is opened that would take their place.
#pragma once

#include <functional>
#include <string>

namespace retina {

// Returns `body()`'s value, or the exit code of the Error it threw (any other exception: 70).
// `on_error`, when set, is called with the exit code after the line was printed; an MPI program
// aborts its job there.
int run_program(const std::string& name, const std::function<int()>& body,
                const std::function<void(int)>& on_error = {});

// Hands what was printed on std::cout to the system. Throws kIo when any of it was lost
// while somebody reads. For a program that has to know before it ends; run_program does it last.
void flush_results();

}  // namespace retina
