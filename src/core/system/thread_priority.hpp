#pragma once

#include <string_view>

namespace cohort {

/// Makes the calling thread, and threads that it starts later, yield to others. When the system
/// refuses, a warning says so.
/// @param who       "the evaluator's thread", for the warning
/// @param niceness  1..19
void lower_thread_priority(std::string_view who, int niceness);

}  // namespace cohort
