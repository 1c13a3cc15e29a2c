#pragma once

#include "sim/cluster/event_queue.hpp"

namespace cohort::test {

/// To the end of what there is.
inline void run_all(EventQueue& queue) {
    while (queue.step()) {
    }
}

/// Until `seconds`, with what settles before.
inline void run_queue_until(EventQueue& queue, double seconds) {
    bool reached = false;
    queue.at(seconds, [&] { reached = true; });
    while (!reached && queue.step()) {
    }
}

}  // namespace cohort::test
